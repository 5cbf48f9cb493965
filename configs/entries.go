package configs

import (
	"errors"
	"fmt"
	"regexp"

	"go.yaml.in/yaml/v4"
)

// nameText is what may name a robot, bus, device or joint: a level of an MQTT topic, a label of a metric.
var nameText = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

// entries decodes a section whose keys are names, in the order of the file. fresh makes an entry with its
// defaults.
func entries[T any](n *yaml.Node, fresh func(name string) T) ([]T, error) {
	pairs, err := mapping(n)
	if err != nil {
		return nil, err
	}
	all := make([]T, 0, len(pairs))
	var errs []error
	for _, p := range pairs {
		entry := fresh(p.key)
		errs = append(errs, p.value.Load(&entry, limits()))
		all = append(all, entry)
	}
	return all, flatten(errs)
}

type pair struct {
	key   string
	value *yaml.Node
}

// mapping lists a section's keys and values in the order of the file.
func mapping(n *yaml.Node) ([]pair, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case n.IsZero(), n.ShortTag() == "!!null":
		return nil, nil
	case n.Kind != yaml.MappingNode:
		return nil, loadError(n, "want a section of names, each with its keys")
	case len(n.Content)/2 > maxEntries:
		return nil, loadError(n, fmt.Sprintf("%d entries: at most %d", len(n.Content)/2, maxEntries))
	}
	all := make([]pair, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		all = append(all, pair{n.Content[i].Value, n.Content[i+1]})
	}
	return all, nil
}

// loadError is what is wrong with n, in the form in which errors come out of a decoding as they went in.
func loadError(n *yaml.Node, text string) error {
	return &yaml.LoadErrors{Errors: []*yaml.LoadError{{
		Stage: yaml.ConstructorStage, Message: text, Mark: yaml.Mark{Line: n.Line, Column: n.Column},
	}}}
}

// flatten joins errors of yaml in that form.
func flatten(errs []error) error {
	var all yaml.LoadErrors
	for _, err := range errs {
		if many, ok := errors.AsType[*yaml.LoadErrors](err); ok {
			all.Errors = append(all.Errors, many.Errors...)
		} else if one, ok := errors.AsType[*yaml.LoadError](err); ok {
			all.Errors = append(all.Errors, one)
		}
	}
	if len(all.Errors) == 0 {
		return nil
	}
	return &all
}
