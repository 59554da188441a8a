// Command inside is what CodeHub runs in a workspace. It is a static program on a read-only mount, so that an image needs
// nothing of its own, and it runs as the workspace's user with that user's rights.
//
//	inside ssh     speak SSH as a server on standard input and output, for one connection
//	inside ports   print what listens on TCP, as JSON
//	inside connect join CodeHub's proxy with a port of the loopback, with frames on standard input and output
//	inside key     print the public host key for an opening on standard input; CodeHub runs this itself
//	inside request do one thing for CodeHub's API, with files, ports or detached processes
//	inside command run a command for CodeHub's API, with frames on standard input and output
//	inside install copy itself into a directory, for the pods of a workspace
//	inside run     set directory and environment, and become a command
//	inside kill    signal every process that has an entry in its environment, and their descendants
//	inside terminal  attach to a shell that outlives the connection; inside hold is the process that has
//	                 the shells, and detached processes
//
// CodeHub starts it through the runtime's exec. It listens on no port and keeps no state on the disk.
package main

import (
	"fmt"
	"os"
)

const usage = `usage: inside ssh     speak SSH on standard input and output; CodeHub starts it
       inside ports   print what listens on TCP in this workspace, as JSON
       inside connect PORT        join with a port of the loopback; CodeHub starts it
       inside key     print the public host key for CodeHub's first line
       inside request             do one thing for CodeHub's API, told on standard input
       inside command             run a command, told on standard input
       inside install DIRECTORY   copy itself into a directory
       inside run [--cwd DIRECTORY] [--env NAME=VALUE]... -- COMMAND [ARGUMENT]...
       inside kill HUP|KILL NAME=VALUE
       inside terminal            attach to a shell, told on standard input
       inside hold start|run DIRECTORY
`

func main() {
	command, arguments := "", []string{}
	if len(os.Args) > 1 {
		command, arguments = os.Args[1], os.Args[2:]
	}
	var err error
	switch {
	case command == "ssh" && len(arguments) == 0:
		err = serveStdio(os.Stdin, os.Stdout)
	case command == "ports" && len(arguments) == 0:
		err = printPorts(os.Stdout)
	case command == "connect" && len(arguments) == 1:
		serveConnection(arguments[0], os.Stdin, os.Stdout)
	case command == "key" && len(arguments) == 0:
		err = printHostKey(os.Stdin, os.Stdout)
	case command == "run":
		os.Exit(becomeCommand(arguments))
	case command == "request" && len(arguments) == 0:
		os.Exit(serveRequest(os.Stdin, os.Stdout))
	case command == "command" && len(arguments) == 0:
		os.Exit(serveCommand(os.Stdin, os.Stdout))
	case command == "kill" && len(arguments) == 2:
		err = signalMarked(arguments[0], arguments[1])
	case command == "terminal" && len(arguments) == 0:
		err = attachTerminal(os.Stdin, os.Stdout)
	case command == "hold" && len(arguments) == 2 && arguments[0] == "start":
		err = startDetached(arguments[1])
	case command == "hold" && len(arguments) == 2 && arguments[0] == "run":
		err = hold(arguments[1], func() *Processes { return newProcesses(false) })
	case command == "install" && len(arguments) == 1:
		err = install("/proc/self/exe", arguments[0])
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "inside: %v\n", err)
		os.Exit(1)
	}
}
