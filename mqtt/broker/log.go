package broker

import (
	"context"
	"log/slog"
)

// handler passes on what mochi logs from warnings on, without the packets in it, which hold payloads and,
// of a CONNECT, the password.
type handler struct{ slog.Handler }

func newHandler(h slog.Handler) slog.Handler { return handler{h} }

// Enabled reports whether a level is worth the making of a record.
func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

// Handle passes a record on.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "pk" && a.Key != "packet" {
			clean.AddAttrs(a)
		}
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

// WithAttrs keeps the handler around the one with attributes.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the handler around the one with a group.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
