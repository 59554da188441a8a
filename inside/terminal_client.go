package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	socketName     = "1.sock" // the number is the protocol's: an upgraded CodeHub finds no holder of another one
	holderPatience = 15 * time.Second
	holderRetry    = time.Second
	unreadGrace    = 10 * time.Second
	execMark       = "CODEHUB_EXEC_ID="
)

var socketPlaces = []string{"/dev/shm", "/tmp", "/var/tmp", "/run"}

// attachTerminal carries bytes between CodeHub and the holder, until either ends.
func attachTerminal(in io.Reader, out io.Writer) error {
	directory, err := terminalDirectory(socketPlaces, findAccount().Home)
	if err != nil {
		return err
	}
	connection, err := reachHolder(filepath.Join(directory, socketName), func() error { return startHolder(directory) })
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(connection, in)
		os.Exit(0) // CodeHub has gone; the holder sees it by the closed connection
	}()
	_, _ = io.Copy(out, connection)
	// CodeHub closes once it has read the last frame: an engine may drop what is not read yet when a program ends. A
	// holder that was killed sent no last frame.
	time.Sleep(unreadGrace)
	return nil
}

// terminalDirectory is a directory that only this user can enter. Its name has the home's, because workspaces without a
// sandbox share these places.
func terminalDirectory(places []string, home string) (string, error) {
	digest := sha256.Sum256([]byte(home))
	name := fmt.Sprintf("codehub-terminals-%d-%s", os.Getuid(), hex.EncodeToString(digest[:8]))
	for _, place := range places {
		directory := filepath.Join(place, name)
		_ = os.Mkdir(directory, 0o700)
		info, err := os.Lstat(directory) // not through a link: another user may have made this
		if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
			continue
		}
		if owner, known := info.Sys().(*syscall.Stat_t); known && int(owner.Uid) == os.Getuid() {
			return directory, nil
		}
	}
	return "", fmt.Errorf("no place for a socket: none of %s can be written to", strings.Join(places, ", "))
}

// reachHolder connects to the holder, and starts it if there is none. A holder that is about to end does not greet.
func reachHolder(path string, start func() error) (net.Conn, error) {
	var startedAt time.Time
	for deadline := time.Now().Add(holderPatience); time.Now().Before(deadline); {
		if connection, err := net.Dial("unix", path); err == nil {
			hello := []byte{0}
			_ = connection.SetReadDeadline(deadline)
			if _, err := io.ReadFull(connection, hello); err == nil && hello[0] == holderHello {
				_ = connection.SetReadDeadline(time.Time{})
				return connection, nil
			}
			connection.Close()
		} else if time.Since(startedAt) > holderRetry {
			startedAt = time.Now()
			if err := start(); err != nil {
				return nil, err
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, errors.New("the process that holds terminals does not answer")
}

// startHolder starts the holder through another process, which ends: so it is nobody's child that could be found, and
// ended, with this connection. For the same reason its environment lacks the mark of this exec.
func startHolder(directory string) error {
	return holderCommand("start", directory).Run()
}

// startDetached is that other process.
func startDetached(directory string) error {
	return holderCommand("run", directory).Start()
}

func holderCommand(step, directory string) *exec.Cmd {
	command := exec.Command("/proc/self/exe", "hold", step, directory)
	for _, each := range os.Environ() {
		if !strings.HasPrefix(each, execMark) {
			command.Env = append(command.Env, each)
		}
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return command
}
