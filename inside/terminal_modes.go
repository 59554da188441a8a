package main

import "golang.org/x/sys/unix"

// Numbers of RFC 4254, 8, and what they are in a termios.
var controlCharacters = map[byte]int{
	1: unix.VINTR, 2: unix.VQUIT, 3: unix.VERASE, 4: unix.VKILL, 5: unix.VEOF, 6: unix.VEOL, 7: unix.VEOL2,
	8: unix.VSTART, 9: unix.VSTOP, 10: unix.VSUSP, 12: unix.VREPRINT, 13: unix.VWERASE, 14: unix.VLNEXT,
	18: unix.VDISCARD,
}

var inputFlags = map[byte]uint32{
	30: unix.IGNPAR, 31: unix.PARMRK, 32: unix.INPCK, 33: unix.ISTRIP, 34: unix.INLCR, 35: unix.IGNCR, 36: unix.ICRNL,
	37: unix.IUCLC, 38: unix.IXON, 39: unix.IXANY, 40: unix.IXOFF, 41: unix.IMAXBEL, 42: unix.IUTF8,
}

var localFlags = map[byte]uint32{
	50: unix.ISIG, 51: unix.ICANON, 52: unix.XCASE, 53: unix.ECHO, 54: unix.ECHOE, 55: unix.ECHOK, 56: unix.ECHONL,
	57: unix.NOFLSH, 58: unix.TOSTOP, 59: unix.IEXTEN, 60: unix.ECHOCTL, 61: unix.ECHOKE, 62: unix.PENDIN,
}

var outputFlags = map[byte]uint32{
	70: unix.OPOST, 71: unix.OLCUC, 72: unix.ONLCR, 73: unix.OCRNL, 74: unix.ONOCR, 75: unix.ONLRET,
}

// setMode sets one mode. Numbers without a meaning here, such as speeds, are left alone.
func setMode(settings *unix.Termios, number byte, value uint32) {
	if index, known := controlCharacters[number]; known {
		if value == 255 { // "no such key" on the wire
			value = 0
		}
		settings.Cc[index] = byte(value)
		return
	}
	setFlag(&settings.Iflag, inputFlags[number], value)
	setFlag(&settings.Lflag, localFlags[number], value)
	setFlag(&settings.Oflag, outputFlags[number], value)
}

func setFlag(flags *uint32, flag, value uint32) {
	if value == 0 {
		*flags &^= flag
	} else {
		*flags |= flag
	}
}
