#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds a Debian package with what a host needs to run a policy, from a wheel: deb.sh PYTHON WHEEL FOLDER. It takes pip
# of PYTHON, whose version the package needs, and dpkg-deb. Beside it lie constraints.txt and LICENSES of the checkout, in
# the current folder.
set -eu
python=$1 wheel=$2 out=$3
fail() { echo "ncc: $*" >&2; exit 1; }
command -v dpkg-deb >/dev/null || fail "dpkg-deb is not installed (package dpkg)."
release=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
version=${wheel##*/neighbour_cc-} version=${version%%-*}

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
# Options of `ncc host run`. Copy this to host.conf, change it, run `ncc host check --config /etc/ncc/host.conf`, and
# `systemctl enable --now ncc-host`.
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
  systemctl daemon-reload
  systemctl try-restart ncc-host
fi
END
cat >"$root/DEBIAN/prerm" <<'END'
#!/bin/sh
# Without its agent a host has no limit: also one that was killed leaves none. It fails while an agent runs by hand.
set -e
[ "$1" = remove ] || exit 0
[ ! -d /run/systemd/system ] || systemctl disable --now ncc-host
/opt/ncc/bin/python3 -I -m ncc.host restore
END
chmod -R u=rwX,go=rX "$root"
chmod 755 "$root/usr/bin/ncc" "$root/DEBIAN/postinst" "$root/DEBIAN/prerm"
mkdir -p "$out"
dpkg-deb --root-owner-group -Zgzip --build "$root" "$out"
