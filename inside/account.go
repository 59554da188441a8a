package main

import (
	"bufio"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Account is the user this program runs as.
type Account struct {
	Name  string
	Home  string
	Shell string // empty: the image has none
}

var shells = []string{"/bin/bash", "/usr/bin/bash", "/bin/sh", "/usr/bin/sh", "/bin/ash", "/bin/busybox"}

// findAccount reads /etc/passwd, which an image may lack or which may not know the user. The environment's HOME counts
// more: it is the volume.
func findAccount() Account {
	account := Account{Name: "user", Home: "/"}
	passwdShell := ""
	if entry := passwdEntry("/etc/passwd", strconv.Itoa(os.Getuid())); entry != nil {
		account.Name, account.Home, passwdShell = entry[0], entry[5], entry[6]
	}
	if home := os.Getenv("HOME"); isDirectory(home) {
		account.Home = home
	}
	if !isDirectory(account.Home) {
		account.Home = "/"
	}
	for _, candidate := range append([]string{passwdShell, os.Getenv("SHELL")}, shells...) {
		switch filepath.Base(candidate) {
		case "nologin", "false", ".":
			continue
		}
		if isExecutable(candidate) {
			account.Shell = candidate
			break
		}
	}
	return account
}

func passwdEntry(path, uid string) []string {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) == 7 && fields[2] == uid {
			return fields
		}
	}
	return nil
}

// shellCommand is the program and arguments of a shell that runs command; no command: a login shell.
func (a Account) shellCommand(command string) (string, []string) {
	name := filepath.Base(a.Shell)
	if name == "busybox" {
		name = "sh"
	}
	if command == "" {
		return a.Shell, []string{"-" + name}
	}
	return a.Shell, []string{name, "-c", command}
}

// environment is what every process gets over SSH: this program's own, completed, and what the client sent.
func (a Account) environment(sent map[string]string) []string {
	variables := a.variables()
	// Programs ask these whether they run over SSH. The addresses mean nothing: the stream has none.
	variables["SSH_CLIENT"], variables["SSH_CONNECTION"] = "127.0.0.1 0 22", "127.0.0.1 0 127.0.0.1 22"
	maps.Copy(variables, sent)
	return entries(variables)
}

// terminalEnvironment is what a shell in the dashboard gets. Its page sends UTF-8, whatever the image says or does not.
func (a Account) terminalEnvironment() []string {
	variables := a.variables()
	variables["TERM"], variables["COLORTERM"] = "xterm-256color", "truecolor"
	if variables["LANG"] == "" && variables["LC_ALL"] == "" && variables["LC_CTYPE"] == "" {
		variables["LANG"] = "C.UTF-8"
	}
	return entries(variables)
}

// variables are this program's own, completed.
func (a Account) variables() map[string]string {
	variables := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for _, each := range os.Environ() {
		name, value, _ := strings.Cut(each, "=")
		variables[name] = value
	}
	variables["HOME"] = a.Home
	variables["USER"], variables["LOGNAME"] = a.Name, a.Name
	if a.Shell != "" {
		variables["SHELL"] = a.Shell
	}
	return variables
}

func entries(variables map[string]string) []string {
	environment := make([]string, 0, len(variables))
	for name, value := range variables {
		environment = append(environment, name+"="+value)
	}
	return environment
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
