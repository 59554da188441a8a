package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// startError is why a command cannot be started, with the exit code shells use.
type startError struct {
	code byte
	why  string
}

func (e *startError) Error() string { return e.why }

// prepareProgram finds the program of a request and its directory, which begins at the home unless it is absolute. This
// process stays where it is: the holder prepares several.
func prepareProgram(request Request, account Account, environment []string) (Program, *startError) {
	if len(request.Arguments) == 0 {
		return Program{}, &startError{exitNotExecutable, "no command"}
	}
	directory := request.Directory
	if !filepath.IsAbs(directory) {
		directory = filepath.Join(account.Home, directory)
	}
	if info, err := os.Stat(directory); err != nil || !info.IsDir() {
		return Program{}, &startError{exitNotExecutable, fmt.Sprintf("%s: no such directory", directory)}
	}
	name := request.Arguments[0]
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(directory, name)
	}
	path, code := locate(name, environment)
	switch code {
	case exitNotFound:
		return Program{}, &startError{exitNotFound, request.Arguments[0] + ": no such program"}
	case exitNotExecutable:
		return Program{}, &startError{exitNotExecutable, request.Arguments[0] + ": not executable"}
	}
	return Program{
		Path: path, Arguments: request.Arguments, Directory: directory,
		Environment: mergeEnvironment(environment, []string{"PWD=" + directory}),
	}, nil
}
