package main

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// Terminal is a pseudo-terminal. The program gets the slave.
type Terminal struct {
	master, slave *os.File
	name, kind    string
}

type ptyRequest struct {
	Kind                         string
	Columns, Rows, Width, Height uint32
	Modes                        string
}

type windowSize struct{ Columns, Rows, Width, Height uint32 }

func (s *Session) openTerminal(payload []byte) bool {
	var request ptyRequest
	if ssh.Unmarshal(payload, &request) != nil || strings.ContainsRune(request.Kind, 0) || s.terminal != nil {
		return false
	}
	terminal, err := openTerminal()
	if err != nil {
		return false
	}
	terminal.kind = request.Kind
	_ = terminal.setModes([]byte(request.Modes))
	_ = terminal.resize(windowSize{request.Columns, request.Rows, request.Width, request.Height})
	s.terminal = terminal
	return true
}

func openTerminal() (*Terminal, error) {
	// Without blocking, so that closing it ends a read.
	descriptor, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	master := os.NewFile(uintptr(descriptor), "/dev/ptmx")
	number, err := unix.IoctlGetInt(descriptor, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(descriptor, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		master.Close()
		return nil, err
	}
	// By the descriptor, not by its path: an image may have no /dev/pts, or another one there.
	peer, _, failure := syscall.Syscall(
		syscall.SYS_IOCTL, uintptr(descriptor), unix.TIOCGPTPEER, uintptr(unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC))
	if failure != 0 {
		master.Close()
		return nil, failure
	}
	name := "/dev/pts/" + strconv.Itoa(number)
	return &Terminal{master: master, slave: os.NewFile(peer, name), name: name}, nil
}

func (t *Terminal) resize(size windowSize) error {
	return t.control(func(descriptor int) error {
		return unix.IoctlSetWinsize(descriptor, unix.TIOCSWINSZ, &unix.Winsize{
			Row: uint16(size.Rows), Col: uint16(size.Columns), Xpixel: uint16(size.Width), Ypixel: uint16(size.Height),
		})
	})
}

// setModes sets what the client's own terminal is set to: which keys interrupt and erase, and what is echoed. They come
// as pairs of a number and a value (RFC 4254, 8) up to a zero.
func (t *Terminal) setModes(modes []byte) error {
	return t.control(func(descriptor int) error {
		settings, err := unix.IoctlGetTermios(descriptor, unix.TCGETS)
		if err != nil {
			return err
		}
		for ; len(modes) >= 5 && modes[0] != 0; modes = modes[5:] {
			setMode(settings, modes[0], binary.BigEndian.Uint32(modes[1:5]))
		}
		return unix.IoctlSetTermios(descriptor, unix.TCSETS, settings)
	})
}

// control calls a function with the master's descriptor. Fd() would make it blocking.
func (t *Terminal) control(call func(descriptor int) error) error {
	raw, err := t.master.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	if err := raw.Control(func(descriptor uintptr) { failure = call(int(descriptor)) }); err != nil {
		return err
	}
	return failure
}

func (t *Terminal) close() {
	t.master.Close()
	t.slave.Close()
}
