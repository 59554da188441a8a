package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"
)

type halves struct {
	io.Reader
	io.Writer
}

func (halves) Close() error { return nil }

func sftpPacket(kind byte, id uint32, fields ...any) []byte {
	body := binary.BigEndian.AppendUint32([]byte{kind}, id)
	for _, field := range fields {
		switch field := field.(type) {
		case string:
			body = append(binary.BigEndian.AppendUint32(body, uint32(len(field))), field...)
		case uint32:
			body = binary.BigEndian.AppendUint32(body, field)
		case uint64:
			body = binary.BigEndian.AppendUint64(body, field)
		}
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func TestOnlyWritesToAppendedFilesAreChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(path, []byte("twelve bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	var sent, toClient bytes.Buffer
	for _, packet := range [][]byte{
		{0, 0, 0, 5, 1, 0, 0, 0, 3},
		sftpPacket(sftpOpen, 1, path, uint32(0xA), uint32(0)), // write, create
		sftpPacket(sftpOpen, 2, path, uint32(0xE), uint32(0)), // the same, append
	} {
		sent.Write(packet)
	}
	guard := newAppendingSftp(halves{&sent, &toClient})
	opened := sent.Len()
	if got, err := io.ReadAll(io.LimitReader(guard, int64(opened))); err != nil || len(got) != opened {
		t.Fatal(len(got), err)
	}
	answers := append(sftpPacket(sftpHandle, 1, "plain"), sftpPacket(sftpHandle, 2, "appended")...)
	for _, each := range answers { // in any pieces
		if _, err := guard.Write([]byte{each}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(toClient.Bytes(), answers) {
		t.Error("answers were changed")
	}
	sent.Write(sftpPacket(sftpWrite, 3, "plain", uint64(5), "abc"))
	sent.Write(sftpPacket(sftpWrite, 4, "appended", uint64(0), "abc"))
	sent.Write(sftpPacket(sftpWrite, 5, "appended", uint64(0), "d"))
	wanted := append(sftpPacket(sftpWrite, 3, "plain", uint64(5), "abc"),
		append(sftpPacket(sftpWrite, 4, "appended", uint64(12), "abc"), sftpPacket(sftpWrite, 5, "appended", uint64(15), "d")...)...)
	got, err := io.ReadAll(guard)
	if err != nil || !bytes.Equal(got, wanted) {
		t.Errorf("%v\n got %x\nwant %x", err, got, wanted)
	}
}

func TestAPacketThatLiesAboutItsLengthEndsTheStream(t *testing.T) {
	guard := newAppendingSftp(halves{bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff, 6, 0, 0}), io.Discard})
	if _, err := guard.Read(make([]byte, 10)); err == nil {
		t.Error("it was read")
	}
	short := newAppendingSftp(halves{bytes.NewReader(sftpPacket(sftpWrite, 1)[:7]), io.Discard})
	if _, err := short.Read(make([]byte, 10)); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
}
