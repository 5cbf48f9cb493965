package configs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"hilgate/model/battery"
)

// Bounds of what is read at all. A robot's file is a few kilobytes and nests eight deep.
const (
	maxBytes   = 1 << 20
	maxDepth   = 32
	maxAliases = 10_000 // nodes made by following aliases, in one section
	maxEntries = 64     // of buses, batteries, motors, controllers, accounts
)

// limits are the options of every decoding.
func limits() yaml.Option {
	return yaml.Options(
		yaml.WithKnownFields(),
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth), loaderlimits.AliasValue(maxAliases))),
	)
}

// source is a file's text as a tree, and where everything in it stands. A path is the keys from the root,
// joined by dots, as "batteries.main.model.capacity"; an element of a list is "joints[1]".
type source struct {
	name   string
	lines  map[string]int  // by path: the line of its key
	keys   map[mark]string // by position: the path of the key there
	values map[mark]place  // by position: what the value there is
	broken map[string]bool // paths that could not be decoded, and so need no further complaint
	faults Faults
}

type mark struct{ line, column int }

type place struct{ path, text string }

func newSource(name string) *source {
	return &source{
		name: name, lines: map[string]int{}, keys: map[mark]string{}, values: map[mark]place{},
		broken: map[string]bool{},
	}
}

// parse makes the tree; nil after a fault that leaves none.
func (s *source) parse(src []byte) *yaml.Node {
	if len(src) > maxBytes {
		s.faults = append(s.faults, Fault{File: s.name, Text: fmt.Sprintf("%d bytes: at most %d are read", len(src), maxBytes)})
		return nil
	}
	var root yaml.Node
	if err := yaml.Load(src, &root, limits()); err != nil {
		s.collect("", err)
		return nil
	}
	top := &root
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		top = root.Content[0]
	}
	if top.Kind != yaml.MappingNode {
		s.faults = append(s.faults, Fault{s.name, max(1, top.Line), "want a file of keys, as robot: rover"})
		return nil
	}
	s.survey("", top)
	return top
}

// survey notes where everything below n stands, and takes out what decoding would stumble over: keys that
// occur twice or are no text, merge keys, and numbers that are none.
func (s *source) survey(path string, n *yaml.Node) {
	s.values[mark{n.Line, n.Column}] = place{path, n.Value}
	switch n.Kind {
	case yaml.MappingNode:
		kept := n.Content[:0:0]
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			below := join(path, key.Value)
			switch _, twice := s.lines[below]; {
			case key.Kind != yaml.ScalarNode:
				s.faultAt(key.Line, path, "a key is a word, not a list or a section")
			case key.Value == "<<":
				s.faultAt(key.Line, path, "merging by << is not supported: write the keys, or an alias for the whole section")
			case twice:
				s.faultAt(key.Line, below, "given twice, first in line %d", s.lines[below])
			default:
				s.lines[below] = key.Line
				s.keys[mark{key.Line, key.Column}] = below
				s.survey(below, value)
				kept = append(kept, key, value)
			}
		}
		n.Content = kept
	case yaml.SequenceNode:
		for i, value := range n.Content {
			below := path + "[" + strconv.Itoa(i) + "]"
			s.lines[below] = value.Line
			s.survey(below, value)
		}
	case yaml.ScalarNode:
		if n.ShortTag() != "!!float" {
			return
		}
		if x := 0.0; n.Load(&x) == nil && (math.IsNaN(x) || math.IsInf(x, 0)) && !mayBeUnbounded.MatchString(path) {
			s.faultAt(n.Line, path, "%s: want a finite number", n.Value)
			s.broken[path] = true
		}
	}
}

// mayBeUnbounded finds the bounds that NaN takes away, a joint's limits (to undo what like copied), or
// infinity, the limits of a PID (to leave one side open).
var mayBeUnbounded = regexp.MustCompile(`^motors\.[^.]+\.joints\.[^.]+\.limits\.|^controllers\.[^.]+\.\w+_(min|max)\[`)

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// has reports whether the file gives the key at path.
func (s *source) has(path string) bool {
	_, ok := s.lines[path]
	return ok
}

// line is where path stands, or else the nearest section around it.
func (s *source) line(path string) int {
	for {
		if line, ok := s.lines[path]; ok {
			return line
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return 0
		}
		path = path[:cut]
	}
}

// faultf notes what is wrong at path, unless what stands there could not even be decoded.
func (s *source) faultf(path, format string, args ...any) {
	if !s.broken[path] {
		s.faultAt(s.line(path), path, format, args...)
	}
}

func (s *source) faultAt(line int, path, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if path != "" {
		text = path + ": " + text
	}
	s.faults = append(s.faults, Fault{s.name, line, text})
}

// collect notes every fault in err, which came of decoding or checking what stands at path. It takes
// yaml's errors with their lines, joined errors one by one, and a text that begins with a key and a colon
// as the fault of that key.
func (s *source) collect(path string, err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			s.collect(path, e)
		}
		return
	}
	if all, ok := errors.AsType[*yaml.LoadErrors](err); ok {
		for _, e := range all.Errors {
			s.decodeFault(path, e)
		}
		return
	}
	if e, ok := errors.AsType[*yaml.LoadError](err); ok {
		s.decodeFault(path, e)
		return
	}
	if f, ok := errors.AsType[*battery.Fault](err); ok {
		s.faultf(join(path, f.Key), "%v: want %s", f.Value, f.Want)
		return
	}
	text := err.Error()
	if key, rest, ok := strings.Cut(text, ": "); ok && keyText.MatchString(key) {
		path, text = join(path, key), rest
	}
	s.faultf(path, "%s", text)
}

var keyText = regexp.MustCompile(`^[a-z][a-z0-9_.\[\]]*$`)

// decodeFault notes one of yaml's errors in this file's words.
func (s *source) decodeFault(path string, e *yaml.LoadError) {
	at := mark{e.Mark.Line, e.Mark.Column}
	text := e.Message
	switch {
	case e.Stage != yaml.ConstructorStage:
		if e.ContextMsg != "" {
			text += fmt.Sprintf(" %s, which began in line %d", e.ContextMsg, e.ContextMark.Line)
		}
	case unknownField.MatchString(text):
		path, text = cmp.Or(s.keys[at], path), "unknown key"
	default:
		value := s.values[at]
		path, text = cmp.Or(value.path, path), plain(text, value.text)
	}
	if !s.broken[path] {
		s.faultAt(cmp.Or(at.line, s.line(path)), path, "%s", strings.TrimPrefix(text, "yaml: "))
		s.broken[path] = path != ""
	}
}

// sorted is the faults by line, each once; nil if there are none.
func (s *source) sorted() error {
	if len(s.faults) == 0 {
		return nil
	}
	slices.SortFunc(s.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(s.faults)
}
