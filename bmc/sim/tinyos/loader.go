package tinyos

import (
	"encoding/binary"
	"unicode/utf16"
)

// Offsets of the loader's file, and where its one section is loaded.
const (
	peOffset    = 64
	codeOffset  = 512
	codeAddress = 4096
	codeSize    = 512
)

// loader is an EFI application (PE32+, Microsoft's PE format): it prints the
// message, turns the firmware's watchdog off and halts.
func loader() []byte {
	b := make([]byte, codeOffset+codeSize)
	le := binary.LittleEndian
	copy(b, "MZ")
	le.PutUint32(b[60:], peOffset)
	copy(b[peOffset:], "PE\x00\x00")
	coff := b[peOffset+4:]
	le.PutUint16(coff, machineX64)
	le.PutUint16(coff[2:], 1)      // sections
	le.PutUint16(coff[16:], 240)   // size of the optional header
	le.PutUint16(coff[18:], 0x022) // executable, any address
	opt := coff[20:]
	le.PutUint16(opt, 0x20b) // PE32+
	le.PutUint32(opt[4:], codeSize)
	le.PutUint32(opt[16:], codeAddress) // entry
	le.PutUint32(opt[20:], codeAddress) // base of code
	le.PutUint32(opt[32:], codeAddress) // alignment in memory
	le.PutUint32(opt[36:], codeSize)    // alignment in the file
	le.PutUint32(opt[56:], 2*codeAddress)
	le.PutUint32(opt[60:], codeOffset) // headers
	le.PutUint16(opt[68:], subsystemEFI)
	le.PutUint32(opt[108:], 16) // data directories, all empty
	section := opt[240:]
	copy(section, ".text")
	le.PutUint32(section[8:], codeSize)
	le.PutUint32(section[12:], codeAddress)
	le.PutUint32(section[16:], codeSize)
	le.PutUint32(section[20:], codeOffset)
	le.PutUint32(section[36:], 0x60000020) // code, executable, readable
	copy(b[codeOffset:], efiCode())
	return b
}

// What a loader for x86-64 says in its headers.
const (
	machineX64   = 0x8664
	subsystemEFI = 10
)

func efiCode() []byte {
	code := []byte{
		0x48, 0x83, 0xec, 0x28, // sub rsp, 40
		0x48, 0x89, 0xd3, // mov rbx, rdx: the system table
		0x48, 0x8b, 0x4b, 0x40, // mov rcx, [rbx+64]: ConOut
		0x48, 0x8d, 0x15, 0, 0, 0, 0, // lea rdx, [rip+message]
		0xff, 0x51, 0x08, // call [rcx+8]: OutputString
		0x48, 0x8b, 0x43, 0x60, // mov rax, [rbx+96]: BootServices
		0x31, 0xc9, // xor ecx, ecx
		0x31, 0xd2, // xor edx, edx
		0x45, 0x31, 0xc0, // xor r8d, r8d
		0x45, 0x31, 0xc9, // xor r9d, r9d
		0xff, 0x90, 0x00, 0x01, 0x00, 0x00, // call [rax+256]: SetWatchdogTimer
		0xf4,       // halt: hlt
		0xeb, 0xfd, // jmp halt
	}
	const rip = 18 // behind the lea
	binary.LittleEndian.PutUint32(code[rip-4:], uint32(len(code)-rip))
	for _, c := range utf16.Encode([]rune(message + "\x00")) {
		code = binary.LittleEndian.AppendUint16(code, c)
	}
	return code
}
