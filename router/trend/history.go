package trend

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A history is the history of a server and of a bounded number of its tubes. All methods may
// be called concurrently.
type history struct {
	ofServer, ofTubes *Layout

	mu     sync.Mutex
	most   int // tubes; 0: no history is kept
	server *track
	tubes  map[string]*tubeTrack
}

// A tubeTrack is the history of a tube, which may have been removed.
type tubeTrack struct {
	*track
	wanted time.Time // when place was last called with its name
}

// newHistory makes a history of the server and of at most most tubes; 0: it keeps nothing.
func newHistory(server, tubes *Layout, most int) *history {
	h := &history{ofServer: server, ofTubes: tubes}
	h.limit(most)
	return h
}

// limit changes the number of tubes. It drops tubes in the same order as place.
func (h *history) limit(most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.most = most
	if most == 0 {
		h.server, h.tubes = nil, nil
		return
	}
	if h.server == nil {
		h.server, h.tubes = newTrack(h.ofServer), make(map[string]*tubeTrack)
	}
	h.drop(len(h.tubes)-most, time.Time{})
}

// Most returns the largest number of tubes with a history; 0: no history is kept.
func (h *history) Most() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.most
}

// place begins the history of the named tubes, up to the limit. It first evicts tubes that were
// removed, the earliest first, then tubes that were not named for the longest time.
func (h *history) place(now time.Time, names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	names = names[:min(len(names), h.most)]
	fresh := 0
	for _, name := range names {
		if t := h.tubes[name]; t != nil {
			t.wanted = now
		} else {
			fresh++
		}
	}
	if fresh == 0 {
		return
	}
	h.drop(len(h.tubes)+fresh-h.most, now)
	for _, name := range names {
		if h.tubes[name] == nil {
			h.tubes[strings.Clone(name)] = &tubeTrack{newTrack(h.ofTubes), now}
		}
	}
}

// drop drops n tubes; tubes that are wanted now are dropped last.
func (h *history) drop(n int, now time.Time) {
	if n <= 0 {
		return
	}
	names := slices.SortedFunc(maps.Keys(h.tubes), func(a, b string) int {
		x, y := h.tubes[a], h.tubes[b]
		if wanted := x.wanted.Equal(now); wanted != y.wanted.Equal(now) {
			if wanted {
				return 1
			}
			return -1
		}
		return cmp.Or(x.at.Compare(y.at), x.wanted.Compare(y.wanted), cmp.Compare(a, b))
	})
	for _, name := range names[:n] {
		delete(h.tubes, name)
	}
}

// Kept returns the names of the tubes with a history, sorted.
func (h *history) Kept() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.tubes))
}

// track returns the history of a tube, or of the server if tube is nil; nil: there is none. The
// caller must hold mu.
func (h *history) track(tube *string) *track {
	if tube == nil {
		return h.server
	}
	if t := h.tubes[*tube]; t != nil {
		return t.track
	}
	return nil
}

// add adds a reading of a tube, or of the server if tube is nil. It drops the reading if there is no
// history.
func (h *history) add(tube *string, r *reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.track(tube); t != nil {
		t.add(r)
	}
}

// Points returns the points of some series of a tube, or of the server if tube is nil. series has
// indexes in Layout.Series. NaN is an unknown value. It returns false if there is no history.
func (h *history) Points(tube *string, series []int, s Span) (points [][]float32, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.track(tube)
	if t == nil {
		return nil, false
	}
	for _, i := range series {
		points = append(points, t.points(i, s))
	}
	return points, true
}
