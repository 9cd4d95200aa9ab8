package cluster

import (
	"context"
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
)

// A logger takes what raft says of itself. What it does in the course of things is for who
// debugs; what it cannot go on with it says in a panic, which a Node makes an error of.
type logger struct{ to *slog.Logger }

var _ raft.Logger = (*logger)(nil)

// debug is lazy: nobody but who debugs pays for the text.
func (l *logger) debug(f func() string) {
	if l.to != nil && l.to.Enabled(context.Background(), slog.LevelDebug) {
		l.to.Debug(f())
	}
}

func (l *logger) Debug(v ...any)            { l.debug(func() string { return fmt.Sprint(v...) }) }
func (l *logger) Debugf(s string, v ...any) { l.debug(func() string { return fmt.Sprintf(s, v...) }) }
func (l *logger) Info(v ...any)             { l.Debug(v...) }
func (l *logger) Infof(s string, v ...any)  { l.Debugf(s, v...) }
func (l *logger) Warning(v ...any)          { l.Debug(v...) }

func (l *logger) Warningf(s string, v ...any) { l.Debugf(s, v...) }
func (l *logger) Error(v ...any)              { l.Debug(v...) }
func (l *logger) Errorf(s string, v ...any)   { l.Debugf(s, v...) }
func (l *logger) Fatal(v ...any)              { panic(fmt.Sprint(v...)) }
func (l *logger) Fatalf(s string, v ...any)   { panic(fmt.Sprintf(s, v...)) }
func (l *logger) Panic(v ...any)              { panic(fmt.Sprint(v...)) }
func (l *logger) Panicf(s string, v ...any)   { panic(fmt.Sprintf(s, v...)) }
