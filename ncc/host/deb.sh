#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds a Debian package with what a host needs to run a policy, from a wheel: deb.sh PYTHON WHEEL FOLDER. It takes pip
# of PYTHON, whose version the package needs, and dpkg-deb. The current folder is the checkout: versions are those of its
# constraints.txt, and the package gets its LICENSES.
set -eu
python=$1 wheel=$2 out=$3
fail() { echo "ncc: $*" >&2; exit 1; }
command -v dpkg-deb >/dev/null || fail "dpkg-deb is not installed (package dpkg)."
release=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
version=${wheel##*/neighbour_cc-} version=${version%%-*}
version=$(echo "$version" | sed -E 's/^([0-9.]*[0-9])(a|b|rc|\.dev)/\1~\2/') # else it is later than the release

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
packages=$root/opt/ncc/lib/python$release/site-packages
mkdir -p "$root/DEBIAN" "$root/opt/ncc/bin" "$root/usr/bin" "$root/usr/lib/systemd/system" "$root/etc/ncc" "$root/usr/share/doc/ncc"

# An environment is a file and a link: its interpreter is the host's.
printf 'home = /usr/bin\ninclude-system-site-packages = false\n' >"$root/opt/ncc/pyvenv.cfg"
ln -s "/usr/bin/python$release" "$root/opt/ncc/bin/python3"
"$python" -m pip --disable-pip-version-check install -q --no-deps --no-compile --target "$packages" -c constraints.txt \
  "$wheel" numpy msgspec psutil pyyaml safetensors
rm -rf "$packages/bin"
ls "$packages"/ncc/envs/linux/_bpf*.so >/dev/null 2>&1 ||
  fail "$wheel has no programs for the kernel: install clang and libbpf-dev, and build it again."
"$python" -m compileall -q -s "$root" -p / "$root/opt/ncc" # else the first start compiles, and leaves files behind

sed 's|\${python}|/opt/ncc/bin/python3|; s|\$\$|$|' "$packages/ncc/host/ncc-host.service.in" \
  >"$root/usr/lib/systemd/system/ncc-host.service"
cat >"$root/usr/bin/ncc" <<'END'
#!/bin/sh
if [ "${1-}" != host ]; then
  echo "error: this package has \`ncc host\` only; the wheel has all of ncc" >&2
  exit 2
fi
shift
exec /opt/ncc/bin/python3 -I -m ncc.host "$@"
END
cat >"$root/etc/ncc/host.conf.example" <<'END'
# Options of `ncc host run`. Copy this to host.conf and change it. As root, see what a start would refuse, then start:
#   rights=+bpf,+perfmon,+net_admin,+net_bind_service
#   prlimit --rtprio=50 --memlock=unlimited setpriv --reuid ncc --regid ncc --clear-groups --inh-caps $rights \
#     --ambient-caps $rights ncc host check --config /etc/ncc/host.conf --realtime
#   systemctl enable --now ncc-host
/etc/ncc/policy.ncc            # as ncc export writes; add --digest sha256:... as it prints
--interface eth0 --uplink-rate 1e9 --knows sizes
--peers 10.0.0.2,10.0.0.3      # or [fd00::2],[fd00::3]
--key /etc/ncc/key             # mode 400, of user ncc
--default
--dry-run                      # measure and decide, limit nothing
END
cp LICENSES/* "$root/usr/share/doc/ncc"

libc=$(getconf GNU_LIBC_VERSION)
cat >"$root/DEBIAN/control" <<END
Package: ncc
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: The ncc authors <ncc@localhost>
Depends: python$release, libc6 (>= ${libc#glibc }), libstdc++6, libbpf1, passwd
Section: net
Priority: optional
Description: agent that limits what a host sends, by a policy
 It has what a host needs to run a policy file of ncc (ncc host), and a unit for systemd.
END
echo /etc/ncc/host.conf.example >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/postinst" <<'END'
#!/bin/sh
# An agent that runs goes on with the new version; otherwise nothing starts before an operator asks for it.
set -e
[ "$1" = configure ] || exit 0
getent passwd ncc >/dev/null || useradd --system --no-create-home --shell /usr/sbin/nologin ncc
if [ -d /run/systemd/system ]; then
  if [ -e /etc/systemd/system/ncc-host.service ]; then
    echo "ncc: /etc/systemd/system/ncc-host.service hides the package's unit, and perhaps runs another ncc: remove it" >&2
  fi
  systemctl daemon-reload
  systemctl try-restart ncc-host ||
    echo "ncc-host did not start again: see ncc host check --config /etc/ncc/host.conf" >&2
fi
END
cat >"$root/DEBIAN/prerm" <<'END'
#!/bin/sh
# Without its agent a host has no limit: also one that was killed leaves none. Only an agent that runs by hand (status 3)
# refuses the removal.
[ "$1" = remove ] || exit 0
[ ! -d /run/systemd/system ] || systemctl stop ncc-host
/opt/ncc/bin/python3 -I -m ncc.host restore
case $? in
  0) ;;
  3) exit 1 ;;
  *) echo "ncc: what a killed agent has changed here may stay: look at tc qdisc and sysctl net.ipv4" >&2 ;;
esac
[ ! -d /run/systemd/system ] || systemctl disable ncc-host
exit 0
END
cat >"$root/DEBIAN/postrm" <<'END'
#!/bin/sh
[ "$1" = remove ] && [ -d /run/systemd/system ] && systemctl daemon-reload
exit 0
END
chmod -R u=rwX,go=rX "$root"
chmod 755 "$root/usr/bin/ncc" "$root/DEBIAN/postinst" "$root/DEBIAN/prerm" "$root/DEBIAN/postrm"
mkdir -p "$out"
dpkg-deb --root-owner-group -Zgzip --build "$root" "$out"
