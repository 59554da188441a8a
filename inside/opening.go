package main

import (
	"bufio"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/ssh"
)

const maxOpeningBytes = 4096

// Opening is the first line on standard input, a JSON object, before SSH begins. It comes this way because arguments and
// environments of a process can be read by every process of the same user.
type Opening struct {
	// HostKey is the seed of the workspace's Ed25519 host key.
	HostKey []byte `json:"host_key"`
	// Keep leaves running what was started here when the connection ends. Otherwise it is killed.
	Keep bool `json:"keep"`
	// OwnListenersOnly forwards only to ports on which a process of this workspace listens. CodeHub sets it where the
	// network is the machine's: its loopback has servers of other people.
	OwnListenersOnly bool `json:"own_listeners_only"`
}

// signer is the workspace's host key.
func (o Opening) signer() (ssh.Signer, error) {
	return ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(o.HostKey))
}

// printHostKey prints the public half of the host key, as known_hosts has it.
func printHostKey(in io.Reader, out io.Writer) error {
	opening, err := readOpening(bufio.NewReaderSize(in, maxOpeningBytes))
	if err != nil {
		return err
	}
	signer, err := opening.signer()
	if err != nil {
		return err
	}
	_, err = out.Write(ssh.MarshalAuthorizedKey(signer.PublicKey()))
	return err
}

// readOpening reads the opening and leaves what follows it in the reader.
func readOpening(reader *bufio.Reader) (Opening, error) {
	var opening Opening
	line, err := reader.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return opening, errors.New("the first line is too long")
	case err != nil:
		return opening, fmt.Errorf("the connection ended before its first line: %w", err)
	}
	if err := json.Unmarshal(line, &opening); err != nil {
		return opening, errors.New("the first line is not what CodeHub sends: start this through CodeHub")
	}
	if len(opening.HostKey) != ed25519.SeedSize {
		return opening, fmt.Errorf("the host key has %d bytes instead of %d", len(opening.HostKey), ed25519.SeedSize)
	}
	return opening, nil
}
