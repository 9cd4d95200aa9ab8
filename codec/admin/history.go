package admin

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// A History has time series of the server or of one tube. A point covers StepSeconds. The first
// point begins at From, and the last ends at To.
type History struct {
	Tube        string            `json:"tube,omitempty"` // as ShownName; empty: the server
	From        time.Time         `json:"from"`
	To          time.Time         `json:"to"`
	StepSeconds int64             `json:"step_seconds"`
	Series      map[string]Points `json:"series"`
	Tubes       []string          `json:"tubes,omitempty"` // tubes with a history, as ShownName; only for the server
}

// Points are the values of a series. NaN, null in JSON, is an unknown value.
type Points []float32

// MarshalJSON implements json.Marshaler.
func (p Points) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, v := range p {
		if i > 0 {
			b = append(b, ',')
		}
		switch wide := float64(v); {
		case math.IsNaN(wide) || math.IsInf(wide, 0):
			b = append(b, "null"...)
		case math.Abs(wide) < 1e15:
			b = strconv.AppendFloat(b, wide, 'f', -1, 32)
		default:
			b = strconv.AppendFloat(b, wide, 'e', -1, 32)
		}
	}
	return append(b, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Points) UnmarshalJSON(b []byte) error {
	var list []*float32
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	*p = make(Points, len(list))
	for i, v := range list {
		if (*p)[i] = float32(math.NaN()); v != nil {
			(*p)[i] = *v
		}
	}
	return nil
}
