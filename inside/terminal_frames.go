package main

import (
	"encoding/binary"
	"errors"
	"io"
)

// A frame of a terminal or a command is its kind, one byte, a length of three bytes, and as many bytes. The same program is at
// both ends of the socket; what comes from CodeHub is checked all the same, and so is what CodeHub gets.
const (
	frameInput     = 'i' // to the terminal: bytes
	frameResize    = 'r' // to the terminal: columns and rows, two bytes each
	frameHeartbeat = 'h' // to the terminal: CodeHub still lives
	frameInputEnd  = 'c' // to a command: that was all of its input
	frameSignal    = 's' // to a command: the name of a signal

	frameAttached = 'a' // the first one: one byte, 1 if the shell was started just now; recent output follows
	frameLive     = 'l' // from the terminal: that was the recent output, everything further is new
	frameOutput   = 'o' // from the terminal: bytes
	frameTaken    = 't' // the last one: somebody else has attached
	frameExit     = 'x' // the last one: the shell has ended; its exit code, one byte
	frameFull     = 'f' // the last one: there are too many terminals
	frameRefused  = 'e' // the last one: why there is no shell, in words
	frameErrors   = 'd' // from a command: bytes of its standard error
	frameTook     = 'k' // from a command: how many bytes of input it took, four bytes

	maxTerminalFrame = 64 * 1024
)

var errFrame = errors.New("not a frame of a terminal")

func writeFrame(out io.Writer, kind byte, data []byte) error {
	frame := make([]byte, 4, 4+len(data))
	binary.BigEndian.PutUint32(frame, uint32(kind)<<24|uint32(len(data)))
	_, err := out.Write(append(frame, data...)) // in one call: frames of two writers must not mix
	return err
}

// readFrame reads one frame into the buffer, which must hold maxTerminalFrame, and returns its kind and its data.
func readFrame(in io.Reader, buffer []byte) (byte, []byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(head[:]) & 0xFFFFFF
	if length > maxTerminalFrame {
		return 0, nil, errFrame
	}
	_, err := io.ReadFull(in, buffer[:length])
	return head[0], buffer[:length], err
}
