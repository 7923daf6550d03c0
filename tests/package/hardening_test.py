"""What is handed out is hardened, as the programs' own ELF headers say: hardening_test.py FILE…

A program loads anywhere; of every file, what is linked at the start is read-only from then on, the stack is not executable, no
memory is both written and executed, functions check the stack, the C library's buffers are checked, and libraries are not looked for
in the working folder.
"""
import struct
import sys

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 3, 0x6474E551, 0x6474E552
DT_STRTAB, DT_STRSZ, DT_RPATH, DT_TEXTREL, DT_BIND_NOW, DT_RUNPATH, DT_FLAGS, DT_FLAGS_1 = 5, 10, 15, 22, 24, 29, 30, 0x6FFFFFFB
DF_TEXTREL, DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 0x4, 0x8, 0x1, 0x08000000
EXECUTE, WRITE = 1, 2
ET_DYN = 3


class Elf:
    """Headers of a 64-bit file of this machine's order."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        if self.data[:5] != b"\x7fELF\x02":
            raise ValueError("no 64-bit ELF file")
        self.kind, = struct.unpack_from("<H", self.data, 16)
        begin, = struct.unpack_from("<Q", self.data, 32)
        size, count = struct.unpack_from("<HH", self.data, 54)
        self.segments = [struct.unpack_from("<IIQQQQQ", self.data, begin + i * size) for i in range(count)]
        self.dynamic = {}
        for kind, _, offset, _, _, length, _ in self.segments:
            if kind == PT_DYNAMIC:
                self.dynamic = {tag: value for tag, value in struct.iter_unpack("<qQ", self.data[offset:offset + length])}

    def at(self, address):
        """The place in the file of an address."""
        for kind, _, offset, virtual, _, length, _ in self.segments:
            if kind == PT_LOAD and virtual <= address < virtual + length:
                return offset + address - virtual
        raise ValueError(f"no segment holds {address:#x}")

    def names(self):
        """The names of symbols that the linker looks up, and of libraries."""
        begin = self.at(self.dynamic[DT_STRTAB])
        return set(self.data[begin:begin + self.dynamic[DT_STRSZ]].split(b"\0"))

    def searched(self):
        """The folders in which libraries are looked for, beside the system's."""
        for tag in (DT_RPATH, DT_RUNPATH):
            if tag in self.dynamic:
                begin = self.at(self.dynamic[DT_STRTAB]) + self.dynamic[tag]
                yield from self.data[begin:self.data.index(b"\0", begin)].decode().split(":")

    def has(self, kind):
        return any(each[0] == kind for each in self.segments)


def faults(elf):
    """Yields what is missing, a sentence each."""
    flags, more = elf.dynamic.get(DT_FLAGS, 0), elf.dynamic.get(DT_FLAGS_1, 0)
    if elf.kind != ET_DYN or (elf.has(PT_INTERP) and not more & DF_1_PIE):
        yield "loads at a fixed address (-pie)"
    if not elf.has(PT_GNU_RELRO):
        yield "what is linked at the start stays writable (-z relro)"
    if not (DT_BIND_NOW in elf.dynamic or flags & DF_BIND_NOW or more & DF_1_NOW):
        yield "functions are linked when they are called (-z now)"
    if not all(each[0] != PT_GNU_STACK or not each[1] & EXECUTE for each in elf.segments) or not elf.has(PT_GNU_STACK):
        yield "the stack is executable (-z noexecstack)"
    if any(each[0] == PT_LOAD and each[1] & EXECUTE and each[1] & WRITE for each in elf.segments):
        yield "memory is both written and executed"
    if DT_TEXTREL in elf.dynamic or flags & DF_TEXTREL:
        yield "code is changed when it is loaded (-fPIC)"
    for folder in elf.searched():
        if not folder.startswith(("/", "$ORIGIN")):
            yield f"libraries are looked for in {folder!r}, from the working folder"
    names = elf.names()
    if b"__stack_chk_fail" not in names:
        yield "functions do not check the stack (-fstack-protector-strong)"
    if not any(each.startswith(b"__") and each.endswith(b"_chk") for each in names):
        yield "buffers of the C library are not checked (-D_FORTIFY_SOURCE=2)"


def main():
    failed = 0
    for path in sys.argv[1:]:
        try:
            wrong = list(faults(Elf(path)))
        except (OSError, ValueError, KeyError, struct.error) as error:
            wrong = [str(error)]
        failed += bool(wrong)
        for each in wrong:
            print(f"{path}: {each}")
    print(f"{len(sys.argv) - 1 - failed} passed, {failed} failed")
    sys.exit(1 if failed or len(sys.argv) < 2 else 0)


main()
