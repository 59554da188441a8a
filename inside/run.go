package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

const (
	exitNotExecutable = 126
	defaultPath       = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Launch is a command with its surroundings: what an engine's exec may not be able to set.
type Launch struct {
	Directory   string
	Environment []string // added to this program's own; the last entry of a name counts
	Command     []string
}

// readLaunch reads the arguments of run.
func readLaunch(arguments []string) (Launch, error) {
	var launch Launch
	for len(arguments) >= 2 && arguments[0] != "--" {
		switch arguments[0] {
		case "--cwd":
			launch.Directory = arguments[1]
		case "--env":
			if name, _, found := strings.Cut(arguments[1], "="); !found || name == "" {
				return launch, fmt.Errorf("not an entry of an environment: %q", arguments[1])
			}
			launch.Environment = append(launch.Environment, arguments[1])
		default:
			return launch, fmt.Errorf("unknown option %q", arguments[0])
		}
		arguments = arguments[2:]
	}
	if len(arguments) < 2 || arguments[0] != "--" {
		return launch, errors.New("no command after --")
	}
	launch.Command = arguments[1:]
	return launch, nil
}

// becomeCommand replaces this program by a command. It returns only if that fails, with the exit code shells use.
func becomeCommand(arguments []string) int {
	launch, err := readLaunch(arguments)
	if err == nil && launch.Directory != "" {
		if err = os.Chdir(launch.Directory); err == nil {
			err = os.Setenv("PWD", launch.Directory)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "inside: %v\n", err)
		return exitNotExecutable
	}
	environment := mergeEnvironment(os.Environ(), launch.Environment)
	path, code := locate(launch.Command[0], environment)
	if code == 0 {
		err = syscall.Exec(path, launch.Command, environment)
		code = exitNotExecutable
	} else {
		err = errors.New("no such program")
		if code == exitNotExecutable {
			err = errors.New("not executable")
		}
	}
	fmt.Fprintf(os.Stderr, "inside: %s: %v\n", launch.Command[0], err)
	return code
}

// locate finds a program; the code is 0, or that of a shell which does not find it or may not run it.
func locate(name string, environment []string) (string, int) {
	path, err := findProgram(name, environment)
	if err == nil {
		return path, 0
	}
	if info, err := os.Stat(name); strings.Contains(name, "/") && err == nil && !info.Mode().IsDir() {
		return "", exitNotExecutable
	}
	return "", exitNotFound
}

// mergeEnvironment adds entries to an environment; a later entry replaces an earlier one of its name.
func mergeEnvironment(own, added []string) []string {
	positions := map[string]int{}
	var merged []string
	for _, each := range append(append([]string{defaultPath}, own...), added...) {
		name, _, _ := strings.Cut(each, "=")
		if position, known := positions[name]; known {
			merged[position] = each
			continue
		}
		positions[name] = len(merged)
		merged = append(merged, each)
	}
	return merged
}
