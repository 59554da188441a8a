package main

import "syscall"

// signalNumbers are the signals that SSH has names for (RFC 4254, 6.9).
var signalNumbers = map[string]syscall.Signal{
	"ABRT": syscall.SIGABRT,
	"ALRM": syscall.SIGALRM,
	"FPE":  syscall.SIGFPE,
	"HUP":  syscall.SIGHUP,
	"ILL":  syscall.SIGILL,
	"INT":  syscall.SIGINT,
	"KILL": syscall.SIGKILL,
	"PIPE": syscall.SIGPIPE,
	"QUIT": syscall.SIGQUIT,
	"SEGV": syscall.SIGSEGV,
	"TERM": syscall.SIGTERM,
	"USR1": syscall.SIGUSR1,
	"USR2": syscall.SIGUSR2,
}

var signalNames = func() map[syscall.Signal]string {
	names := map[syscall.Signal]string{}
	for name, number := range signalNumbers {
		names[number] = name
	}
	return names
}()
