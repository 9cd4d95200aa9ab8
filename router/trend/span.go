package trend

// A Span says which points of a history are wanted: each is of Step seconds, from From on,
// which is Unix time and a multiple of Step.
type Span struct{ From, To, Step int64 }

// PointsMost is how many points of a series are given at a time: somewhat more than are kept.
const PointsMost = 1500

// SpanOf is the span that has the times from and to in it. Without a step, which is zero, it
// has that of the finest history that there is of all of it, at a time now, or a larger one if
// there were too many points.
func SpanOf(from, to, step, now int64) Span {
	if step == 0 {
		step = FineStep
		if from < now-FineFor || (to-from)/step >= PointsMost {
			step = CoarseStep * (1 + (to-from)/(CoarseStep*(PointsMost-1)))
		}
	}
	first := from - (from%step+step)%step
	points := max(1, (to-first+step-1)/step)
	return Span{From: first, To: first + points*step, Step: step}
}

// ValidStep reports whether there is a history by so many seconds: they are a multiple of
// CoarseStep, or a part of it and a multiple of FineStep.
func ValidStep(step int64) bool {
	return step > 0 && (step%CoarseStep == 0 || step%FineStep == 0 && CoarseStep%step == 0)
}

// Points is how many the span has.
func (s Span) Points() int64 { return (s.To - s.From) / s.Step }
