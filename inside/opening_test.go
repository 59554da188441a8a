package main

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

const seed = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

func TestTheOpeningLeavesWhatFollowsIt(t *testing.T) {
	reader := bufio.NewReader(strings.NewReader(`{"host_key":"` + seed + `","keep":true}` + "\nSSH-2.0-client\r\n"))
	opening, err := readOpening(reader)
	if err != nil || !opening.Keep || opening.HostKey[31] != 31 {
		t.Fatalf("%+v, %v", opening, err)
	}
	if rest, _ := io.ReadAll(reader); string(rest) != "SSH-2.0-client\r\n" {
		t.Errorf("left: %q", rest)
	}
}

func TestAnOpeningThatCodeHubDoesNotSendIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "{}\n", "SSH-2.0-client\r\n", `{"host_key":"AAEC"}` + "\n", `{"host_key":"` + seed + `"}`,
		strings.Repeat(" ", 100_000) + "{}\n",
	} {
		if _, err := readOpening(bufio.NewReaderSize(strings.NewReader(text), maxOpeningBytes)); err == nil {
			t.Errorf("accepted: %.40q", text)
		}
	}
}
