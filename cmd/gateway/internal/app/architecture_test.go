package app

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The house at a glance: the floors, and what each package may import of ours. A package imports from floors
// below its own; on one floor packages do not know each other, save where a line here says so.
//
//	5  cmd/gateway, cmd/gateway/internal/{app,web}   the commands, the wiring, the pages
//	4  bms/poll  motor/loop  model/state  mqtt  mqtt/broker  metrics   the only goroutines and the only clock
//	3  drivers/…  configs                            the device edge
//	2  model/{battery,fusion,plant}  motor/{trajectory,pid,gate}  mqtt/wire   pure logic
//	1  bms  motor  model                             vocabulary
//	0  model/{unit,permit,link}                      ground
var (
	ground     = []string{"model/unit", "model/permit", "model/link"}
	vocabulary = append([]string{"bms", "motor", "model"}, ground...)
	pure       = append([]string{
		"model/battery", "model/fusion", "model/plant", "motor/trajectory", "motor/pid", "motor/gate", "mqtt/wire",
	}, vocabulary...)
	device = []string{"drivers", "drivers/sim", "drivers/smbus"}

	mayImport = map[string][]string{
		"model/unit": {}, "model/permit": {}, "model/link": {},

		"bms":   ground,
		"motor": ground,
		"model": append([]string{"bms", "motor"}, ground...),

		"model/battery":    append([]string{"bms"}, ground...),
		"model/fusion":     append([]string{"model/battery"}, vocabulary...),
		"model/plant":      append([]string{"model/battery"}, ground...),
		"motor/trajectory": append([]string{"motor"}, ground...),
		"motor/pid":        {},
		"motor/gate":       append([]string{"motor"}, ground...),
		"mqtt/wire":        append([]string{"motor/trajectory"}, vocabulary...),

		"drivers":            append([]string{"drivers/sim"}, pure...),
		"drivers/sim":        {"model/link"},
		"drivers/line":       {"drivers/sim", "model/link"},
		"drivers/smbus":      {"model/link"},
		"drivers/sbs":        append(device, pure...),
		"drivers/roboclaw":   append(device, pure...),
		"drivers/all":        {"drivers", "drivers/sbs", "drivers/roboclaw"},
		"drivers/drivertest": append([]string{"drivers/line"}, append(device, pure...)...),
		"configs":            append([]string{"drivers", "drivers/sim"}, pure...),

		"bms/poll":                    vocabulary,
		"motor/loop":                  pure,
		"model/state":                 pure,
		"mqtt":                        append([]string{"mqtt/wire"}, vocabulary...),
		"mqtt/broker":                 {},
		"metrics":                     vocabulary,
		"metrics/grafana":             {},
		"metrics/grafana/grafanatest": {"metrics/grafana"},

		"cmd/gateway/internal/web": vocabulary,
	}

	// Third-party modules stay in one place each.
	moduleHome = map[string][]string{
		"periph.io/x/":                        {"drivers"},
		"go.bug.st/serial":                    {"drivers/line"},
		"github.com/eclipse/paho.mqtt.golang": {"mqtt"},
		"github.com/mochi-mqtt/server":        {"mqtt/broker"},
		"github.com/prometheus/client_golang": {"metrics"},
		"go.yaml.in/yaml":                     {"configs", "drivers"},
		"github.com/spf13/cobra":              {"cmd/gateway"},
		"github.com/coreos/go-systemd":        {"cmd/gateway"},
		"golang.org/x/sys":                    {"drivers", "motor/loop"},
	}
)

type listed struct {
	ImportPath string
	Imports    []string
}

func TestImportsAreThoseOfThePicture(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "hilgate/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p listed
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, "hilgate/")
		seen[name] = true
		allowed, known := mayImport[name]
		wiring := name == "cmd/gateway" || name == "cmd/gateway/internal/app"
		if !known && !wiring {
			t.Errorf("%s is not in the picture", name)
		}
		for _, imported := range p.Imports {
			ours, isOurs := strings.CutPrefix(imported, "hilgate/")
			switch {
			case isOurs && !wiring && !slices.Contains(allowed, ours):
				t.Errorf("%s imports %s, which the picture does not have", name, ours)
			case isOurs && !wiring && strings.HasPrefix(ours, "cmd/"):
				t.Errorf("%s imports %s, which is above everything", name, ours)
			case !isOurs:
				for module, homes := range moduleHome {
					if strings.HasPrefix(imported, module) && !slices.ContainsFunc(homes, func(home string) bool {
						return name == home || strings.HasPrefix(name, home+"/")
					}) && name != "cmd/gateway/internal/app" {
						t.Errorf("%s imports %s, whose home is %v", name, imported, homes)
					}
				}
			}
		}
	}
	for name := range mayImport {
		if !seen[name] {
			t.Errorf("the picture has %s, which is not there", name)
		}
	}
}

func TestTimeIsAnArgumentBelowFloorThree(t *testing.T) {
	asks := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
	for _, pkg := range pure {
		files, err := filepath.Glob(filepath.Join("../../../..", pkg, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %d files", pkg, err, len(files))
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			tree, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%v: a goroutine on a floor that starts none", fset.Position(n.Pos()))
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(asks, n.Sel.Name) {
						t.Errorf("%v: time.%s on a floor that knows no clock", fset.Position(n.Pos()), n.Sel.Name)
					}
				case *ast.FuncDecl:
					if n.Name.Name == "init" && n.Recv == nil {
						t.Errorf("%v: there is no init", fset.Position(n.Pos()))
					}
				}
				return true
			})
		}
	}
}
