package broker

import (
	"crypto/pbkdf2"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// Account is someone who may connect.
type Account struct {
	Name string

	// Password is the password itself, or its hash as mosquitto_passwd writes it after the name:
	//
	//	$7$iterations$salt$hash     PBKDF2 with HMAC-SHA-512, salt and hash in base64
	Password string

	// ReadOnly accounts may subscribe and not publish.
	ReadOnly bool
}

// secret is a password as it is kept: hashed.
type secret struct {
	iterations int
	salt, hash []byte
	readOnly   bool
}

// Bounds of a hash. mosquitto writes 101 iterations by default, 64 bytes of hash.
const (
	plainIterations = 1 // of a password that stands in a file in the clear anyway
	mostIterations  = 1_000_000
	mostHash        = 64
)

// errNoHash says that a password looks like a hash of a kind that is not read here, and so is none.
var errNoHash = errors.New("looks like a hash: want the password, or the hash that mosquitto_passwd makes ($7$…)")

func newSecret(password string) (secret, error) {
	if password == "" {
		return secret{}, errors.New("empty password")
	}
	if !strings.HasPrefix(password, "$7$") {
		if strings.HasPrefix(password, "$2") || strings.HasPrefix(password, "$6$") || strings.HasPrefix(password, "$argon2") {
			return secret{}, errNoHash
		}
		s := secret{iterations: plainIterations, salt: []byte("hilgate")}
		s.hash = s.of(password, mostHash)
		return s, nil
	}
	part := strings.Split(password, "$") // "", "7", iterations, salt, hash
	if len(part) != 5 {
		return secret{}, errNoHash
	}
	n, err := strconv.Atoi(part[2])
	salt, err2 := base64.StdEncoding.DecodeString(part[3])
	hash, err3 := base64.StdEncoding.DecodeString(part[4])
	if err := errors.Join(err, err2, err3); err != nil || n < 1 || n > mostIterations || len(hash) == 0 || len(hash) > mostHash {
		return secret{}, errNoHash
	}
	return secret{iterations: n, salt: salt, hash: hash}, nil
}

// of hashes a password as s was hashed.
func (s *secret) of(password string, length int) []byte {
	key, err := pbkdf2.Key(sha512.New, password, s.salt, s.iterations, length)
	if err != nil {
		return nil // which equals no hash: lengths are checked
	}
	return key
}

func (s *secret) matches(password string) bool {
	return subtle.ConstantTimeCompare(s.of(password, len(s.hash)), s.hash) == 1
}

// accounts is the hook that lets clients in and says what they may do.
type accounts struct {
	mochi.HookBase
	byName map[string]secret
	nobody secret // whom an unknown name is checked against, so that the answer takes as long
}

func newAccounts(list []Account) (*accounts, error) {
	a := &accounts{byName: make(map[string]secret, len(list))}
	for _, account := range list {
		s, err := newSecret(account.Password)
		if err != nil {
			return nil, fmt.Errorf("account %q: %w", account.Name, err)
		}
		if _, twice := a.byName[account.Name]; twice || account.Name == "" {
			return nil, fmt.Errorf("account %q: want a name that no other has", account.Name)
		}
		s.readOnly = account.ReadOnly
		a.byName[account.Name] = s
		a.nobody = s
	}
	return a, nil
}

// ID names the hook.
func (a *accounts) ID() string { return "accounts" }

// Provides says which events the hook answers.
func (a *accounts) Provides(event byte) bool {
	return event == mochi.OnConnectAuthenticate || event == mochi.OnACLCheck
}

// OnConnectAuthenticate lets a client in, or not. A will is a publication that nobody checks when its time
// comes: who may not publish may not bring one.
func (a *accounts) OnConnectAuthenticate(_ *mochi.Client, pk packets.Packet) bool {
	if len(a.byName) == 0 {
		return true
	}
	s, known := a.byName[string(pk.Connect.Username)]
	if !known {
		s = a.nobody
	}
	allowed := s.matches(string(pk.Connect.Password)) // asked of everyone: it takes its time
	return allowed && known && (!s.readOnly || !pk.Connect.WillFlag)
}

// OnACLCheck lets a client publish or subscribe, or not.
func (a *accounts) OnACLCheck(cl *mochi.Client, _ string, write bool) bool {
	return !write || !a.byName[string(cl.Properties.Username)].readOnly
}
