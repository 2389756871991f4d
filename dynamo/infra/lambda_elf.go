package infra

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
)

const (
	module          = "github.com/zeroae/zae-limiter-go"
	commandModule   = module + "/cmd" // of the programs
	mainPackage     = commandModule + "/zae-limiter"
	functionPackage = commandModule + "/" + functionProgram
	functionProgram = "zae-limiter-function" // the program without commands and servers
)

// machines maps architectures to their names in an executable.
var machines = map[string]elf.Machine{ARM64: elf.EM_AARCH64, X8664: elf.EM_X86_64}

// runningProgram returns the executable of this process if it can serve as the
// functions' code.
func runningProgram(architecture string) ([]byte, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("the running program could not be found: %w", err)
	}
	content, _, err := readProgram(path, "the running program", mainPackage, architecture)
	return content, err
}

// programBeside returns the program of the functions in the folder of the running
// program, as releases have it, if both are of one version.
func programBeside(architecture string) ([]byte, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("the running program could not be found: %w", err)
	}

	// The program of the functions is beside the file itself, not beside a link
	// to it.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	running, _ := debug.ReadBuildInfo()
	return readBeside(filepath.Dir(path), running, architecture)
}

// readBeside reads the program of the functions in a folder.
func readBeside(dir string, running *debug.BuildInfo, architecture string) ([]byte, error) {
	content, info, err := readProgram(filepath.Join(dir, functionProgram), functionProgram, functionPackage,
		architecture)
	if err != nil {
		return nil, err
	}

	// Builds of a checkout may have the same version, so the commit has to
	// match too.
	if running == nil || info.Main.Version != running.Main.Version || revision(info) != revision(running) {
		return nil, errors.New(functionProgram + " is of another version than the running program")
	}
	return content, nil
}

// revision returns the commit that a program was built from, or "".
func revision(info *debug.BuildInfo) string {
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

// readProgram reads an executable, and checks that it is the expected one: other
// programs that import this package do not handle events of the functions.
func readProgram(path, name, expected, architecture string) ([]byte, *debug.BuildInfo, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("%s could not be read: %s", name, pathErrorText(err))
	}

	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil || info.Path != expected {
		return nil, nil, fmt.Errorf("%s is not zae-limiter itself", name)
	}

	if err := checkProgram(content, architecture); err != nil {
		return nil, nil, fmt.Errorf("%s is not suitable: %w", name, err)
	}

	return content, info, nil
}

// checkProgram returns an error if an executable cannot run as a function. It accepts
// both architectures if architecture is "".
func checkProgram(content []byte, architecture string) error {
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return errors.New("it is not a program for Linux")
	}

	// A position-independent program has the type of a shared library.
	if f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return errors.New("it is not a program")
	}

	found := architectureOf(f)
	fits := found == architecture || architecture == "" && machines[found] != 0
	// A 32-bit program may have the same machine type.
	if !fits || f.Class != elf.ELFCLASS64 {
		return fmt.Errorf("it is for %s, but the functions are for %s", found, cmp.Or(architecture, ARM64+" or "+X8664))
	}

	if f.OSABI != elf.ELFOSABI_NONE && f.OSABI != elf.ELFOSABI_LINUX {
		return errors.New("it is not for Linux")
	}

	// The system of the functions has neither the dynamic loader nor the
	// libraries of the machine that built the program.
	for _, segment := range f.Progs {
		if segment.Type == elf.PT_INTERP {
			return errors.New("it is linked dynamically; build it with CGO_ENABLED=0")
		}
	}

	if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 {
		return errors.New("it needs shared libraries; build it with CGO_ENABLED=0")
	}

	return nil
}

// architectureOf returns the architecture of an executable.
func architectureOf(f *elf.File) string {
	for name, machine := range machines {
		if f.Machine == machine {
			return name
		}
	}
	return f.Machine.String()
}
