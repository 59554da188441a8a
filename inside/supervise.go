package main

import (
	"fmt"
	"os"
)

const (
	exitLost     = 143 // as after SIGTERM
	exitSignaled = 128
)

// runSupervised runs a command that ends with its connection: it and everything it started, daemons too. Its output
// is this program's own, so nothing is copied.
func runSupervised(request Request, account Account, lost <-chan struct{}) int {
	environment := mergeEnvironment(os.Environ(), request.Environment)
	directory := request.Directory
	if directory == "" {
		directory = account.Home
	}
	path, code := locateIn(directory, request.Arguments, environment)
	if code != 0 {
		return code
	}
	read, write, err := os.Pipe()
	if err != nil {
		fmt.Fprintf(os.Stderr, "inside: %v\n", err)
		return 1
	}
	processes := newProcesses(false)
	defer processes.killAll()
	_, exited, err := processes.start(Program{
		Path:        path,
		Arguments:   request.Arguments,
		Directory:   directory,
		Environment: environment,
		Files:       []*os.File{read, os.Stdout, os.Stderr},
	})
	read.Close()
	if err != nil {
		fmt.Fprintf(os.Stderr, "inside: %s: %v\n", request.Arguments[0], err)
		return exitNotExecutable
	}
	go func() {
		_, _ = write.Write(request.Input)
		write.Close()
	}()
	select {
	case status := <-exited:
		if status.Signaled() {
			return exitSignaled + int(status.Signal())
		}
		return status.ExitStatus()
	case <-lost:
		return exitLost
	}
}

// locateIn finds a program and checks its directory, and says on standard error what is wrong.
func locateIn(directory string, command, environment []string) (string, int) {
	if len(command) == 0 {
		fmt.Fprintln(os.Stderr, "inside: no command")
		return "", exitNotExecutable
	}
	if err := os.Chdir(directory); err != nil {
		fmt.Fprintf(os.Stderr, "inside: %v\n", err)
		return "", exitNotExecutable
	}
	path, code := locate(command[0], environment)
	switch code {
	case exitNotFound:
		fmt.Fprintf(os.Stderr, "inside: %s: no such program\n", command[0])
	case exitNotExecutable:
		fmt.Fprintf(os.Stderr, "inside: %s: not executable\n", command[0])
	}
	return path, code
}
