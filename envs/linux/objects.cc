// SPDX-License-Identifier: BSD-3-Clause
// Module ncc/envs/linux/_bpf: BPF objects in the kernel, through libbpf. All errors are `DatapathError`.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace
{

constexpr unsigned kLink = 1U << 13; // BPF_F_LINK of linux/bpf.h since Linux 6.4
constexpr int kStructOps = 44;       // BPF_STRUCT_OPS of enum bpf_attach_type

struct Registered : std::runtime_error {
    using std::runtime_error::runtime_error;
};

[[noreturn]] void Fail(const std::string &sentence)
{
    PyErr_SetString(nb::module_::import_("ncc.core.errors").attr("DatapathError").ptr(), sentence.c_str());
    throw nb::python_error();
}

std::vector<std::string> warnings; // libbpf's since an object was opened

int Warn(libbpf_print_level level, const char *format, va_list values)
{
    char line[4096];
    vsnprintf(line, sizeof(line), format, values);
    // libbpf guesses at a limit that kernels since 5.11 do not use; a privilege is missing instead.
    if (level == LIBBPF_WARN && !std::strstr(line, "memlock") && !std::strstr(line, "ulimit -l")) {
        warnings.emplace_back(line, std::strcspn(line, "\n"));
    }
    return 0;
}

// An error number in words, and libbpf's last warnings.
std::string Why(int error)
{
    std::string why = std::string(" (") + std::strerror(std::abs(error)) + ").";
    for (size_t i = warnings.size() > 6 ? warnings.size() - 6 : 0; i < warnings.size(); ++i) {
        why += " " + warnings[i];
    }
    return why;
}

// An object, opened at a path or, with `data`, from bytes that were derived from that file.
class Object
{
  public:
    Object(const std::string &path, std::optional<nb::bytes> data) : name_(path.substr(path.rfind('/') + 1))
    {
        warnings.clear();
        object_ = data ? bpf_object__open_mem(data->c_str(), data->size(), nullptr)
                       : bpf_object__open_file(path.c_str(), nullptr);
        if (!object_) {
            Fail("BPF object " + name_ + " cannot be opened; rebuild it with make build" + Why(errno));
        }
    }
    Object(const Object &) = delete;
    ~Object() { Close(); }

    // Writes a data section, before the object is loaded.
    void Set(const std::string &section, nb::bytes data)
    {
        if (const int error = bpf_map__set_initial_value(Map(section), data.c_str(), data.size())) {
            Fail("Section " + section + " of BPF object " + name_ + " cannot be set; rebuild it with make build" +
                 Why(error));
        }
    }

    // Creates the maps and has the programs verified.
    void Load()
    {
        bpf_map *map = nullptr;
        bpf_object__for_each_map(map, Open())
        {
            if (bpf_map__type(map) == BPF_MAP_TYPE_STRUCT_OPS) { // its registration ends with this process
                bpf_map__set_map_flags(map, bpf_map__map_flags(map) | kLink);
            }
        }
        if (const int error = bpf_object__load(object_)) {
            Fail("The kernel refuses BPF object " + name_ + "; `ncc host check` says what is missing" + Why(error));
        }
    }

    // Registers a map of struct_ops for as long as this object is open and the process lives.
    void Register(const std::string &name)
    {
        bpf_map *map = Map(name);
        link_ = bpf_map__attach_struct_ops(map);
        int error = link_ ? 0 : errno;
        if (link_ && libbpf_major_version() == 1 && libbpf_minor_version() < 2) { // it makes no link in the kernel
            link_fd_ = bpf_link_create(bpf_map__fd(map), 0, static_cast<bpf_attach_type>(kStructOps), nullptr);
            error = link_fd_ < 0 ? -link_fd_ : 0;
        }
        if (error == EEXIST) {
            throw Registered("The kernel has a congestion control of that name already.");
        }
        if (error) {
            Fail("The kernel refuses to register " + name + " of BPF object " + name_ + Why(error));
        }
    }

    // Attaches a program to the control group at a path for as long as this object is open and the process lives.
    void Attach(const std::string &name, const std::string &group)
    {
        bpf_program *program = bpf_object__find_program_by_name(Open(), name.c_str());
        const int fd = open(group.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (!program || fd < 0) {
            Fail("Program " + name + " of BPF object " + name_ + " cannot be attached to " + group + Why(errno));
        }
        bpf_link *link = bpf_program__attach_cgroup(program, fd);
        const int error = link ? 0 : errno;
        close(fd);
        if (error) {
            Fail("The kernel refuses program " + name + " of BPF object " + name_ + " at " + group + Why(error));
        }
        bpf_link__destroy(link_);
        link_ = link;
    }

    // File descriptors of the programs, by name.
    std::map<std::string, int> Programs() const
    {
        std::map<std::string, int> found;
        bpf_program *program = nullptr;
        bpf_object__for_each_program(program, Open()) { found[bpf_program__name(program)] = bpf_program__fd(program); }
        return found;
    }

    // File descriptor, bytes of a row and number of rows of a map.
    std::tuple<int, size_t, size_t> Shape(const std::string &name) const
    {
        const bpf_map *map = Map(name);
        return {bpf_map__fd(map), bpf_map__value_size(map), bpf_map__max_entries(map)};
    }

    // Sets an element; without a key, appends it to a queue.
    void Update(const std::string &name, std::optional<nb::bytes> key, nb::bytes value)
    {
        if (const int error =
                bpf_map_update_elem(bpf_map__fd(Map(name)), key ? key->c_str() : nullptr, value.c_str(), BPF_ANY)) {
            Fail("Map " + name + " of BPF object " + name_ + " cannot be written" + Why(error));
        }
    }

    // Unregisters and unloads; sockets keep the programs that they use until they close. May be called twice.
    void Close()
    {
        if (link_fd_ >= 0) {
            close(link_fd_);
        }
        bpf_link__destroy(link_);
        bpf_object__close(object_);
        link_fd_ = -1;
        link_ = nullptr;
        object_ = nullptr;
    }

  private:
    bpf_object *Open() const
    {
        if (!object_) {
            Fail("BPF object " + name_ + " is closed.");
        }
        return object_;
    }

    bpf_map *Map(const std::string &name) const
    {
        bpf_map *map = bpf_object__find_map_by_name(Open(), name.c_str());
        if (!map) {
            Fail("BPF object " + name_ + " has no map " + name + ": rebuild it with make build.");
        }
        return map;
    }

    std::string name_;
    bpf_object *object_ = nullptr;
    bpf_link *link_ = nullptr;
    int link_fd_ = -1;
};

} // namespace

NB_MODULE(_bpf, m)
{
    nb::set_leak_warnings(false); // a failed run is still referenced by the traceback at exit
    libbpf_set_print(&Warn);
    nb::exception<Registered>(m, "RegisteredError", nb::module_::import_("ncc.core.errors").attr("DatapathError"));
    m.def("version", [] { return std::pair(libbpf_major_version(), libbpf_minor_version()); });
    m.def(
        "run",
        [](int program) {
            LIBBPF_OPTS(bpf_test_run_opts, options);
            if (const int error = bpf_prog_test_run_opts(program, &options)) {
                Fail("The kernel refuses to run a program of a BPF object" + Why(error));
            }
        },
        "program"_a, "Runs a program of type syscall once.");
    nb::class_<Object>(m, "Object")
        .def(nb::init<const std::string &, std::optional<nb::bytes>>(), "path"_a, "data"_a = nb::none())
        .def("set", &Object::Set, "section"_a, "data"_a)
        .def("load", &Object::Load)
        .def("register", &Object::Register, "map"_a)
        .def("attach", &Object::Attach, "program"_a, "group"_a)
        .def_prop_ro("programs", &Object::Programs)
        .def("shape", &Object::Shape, "map"_a)
        .def("update", &Object::Update, "map"_a, "key"_a.none(), "value"_a)
        .def("close", &Object::Close);
}
