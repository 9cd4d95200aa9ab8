package trend

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// A History is that of a server, and of a bounded number of its tubes. It may be used by
// anyone at any time.
type History struct {
	ofServer, ofTubes *Layout

	mu     sync.Mutex
	most   int // tubes; 0: nothing is kept
	server *track
	tubes  map[string]*tubeTrack
}

// A tubeTrack is that of a tube, which may have gone.
type tubeTrack struct {
	*track
	wanted time.Time // when Place was last told of it
	read   time.Time
}

// New makes a history of the server and at most so many tubes; of none, it keeps nothing at
// all.
func newHistory(server, tubes *Layout, most int) *History {
	h := &History{ofServer: server, ofTubes: tubes}
	h.Limit(most)
	return h
}

// Limit changes how many tubes have a history. If there are more by now, those are
// dropped that Place would drop first.
func (h *History) Limit(most int) {
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

// Most is how many tubes have a history at most; 0: nothing is kept.
func (h *History) Most() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.most
}

// Server adds a reading of the server.
func (h *History) Server(r *Reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.server != nil {
		h.server.add(r)
	}
}

// Place gives some tubes a place, as many as there are. For that it drops the history of
// others: first of those that have gone, the longest ago first, then of those of which it
// was not told for longest.
func (h *History) Place(now time.Time, names []string) {
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
			h.tubes[strings.Clone(name)] = &tubeTrack{newTrack(h.ofTubes), now, now}
		}
	}
}

// drop drops the history of so many tubes; those that are wanted now come last.
func (h *History) drop(n int, now time.Time) {
	if n <= 0 {
		return
	}
	names := make([]string, 0, len(h.tubes))
	for name := range h.tubes {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := h.tubes[a], h.tubes[b]
		if wanted := x.wanted.Equal(now); wanted != y.wanted.Equal(now) {
			if wanted {
				return 1
			}
			return -1
		}
		return cmp.Or(x.read.Compare(y.read), x.wanted.Compare(y.wanted), cmp.Compare(a, b))
	})
	for _, name := range names[:n] {
		delete(h.tubes, name)
	}
}

// Kept are the names of the tubes that have a history, in their order.
func (h *History) Kept() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := make([]string, 0, len(h.tubes))
	for name := range h.tubes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Tube adds a reading of a tube that has a place; without one it is not kept.
func (h *History) Tube(name string, r *Reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.tubes[name]; t != nil {
		t.add(r)
		t.read = r.At
	}
}

// ServerPoints are those of a series, by its place in the server's layout's Series: as many
// as the span has, NaN where nothing is known. false: nothing is kept.
func (h *History) ServerPoints(series []int, s Span) (points [][]float32, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.server.all(series, s)
}

// TubePoints is ServerPoints of a tube; false: it has no history.
func (h *History) TubePoints(name string, series []int, s Span) (points [][]float32, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tubes[name]
	if t == nil {
		return nil, false
	}
	return t.all(series, s)
}

// all are the points of some series.
func (t *track) all(series []int, s Span) (points [][]float32, ok bool) {
	if t == nil {
		return nil, false
	}
	for _, i := range series {
		points = append(points, t.points(i, s))
	}
	return points, true
}
