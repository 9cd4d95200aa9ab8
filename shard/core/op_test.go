package core

import "testing"

// made is op once more, by the method of its name, in an Op that has held something else
// before in every field. Tests play their histories with it: a field that an operation
// reads and its method does not set would show.
func made(op *Op) *Op {
	junk := []byte("junk")
	o := &Op{
		Kind: 255, Kicked: 255, Wait: true, Multi: true, Mirror: true, HeldOnly: true, Client: 1 << 30, Tube: 1 << 30,
		ID: 1 << 60, Pri: 77, N: 77, Admitted: 1 << 31, Delay: 77, TTR: 77, Name: junk, Body: junk,
		Large: Large{junk}, Bound: Key{7, 7}, Until: 7, Seq: 77, Waiter: new(Waiter),
		Figures: Figures{new(JobStats), new(TubeStats), new(Counts)}, Function: op.Function,
	}
	at := uint64(0)
	if op.Function != nil {
		at = op.Function.Cursor
	}
	makers[op.Kind](o, op)
	if op.Function != nil {
		op.Function.Cursor = at // this may be a further visit
	}
	o.Conn, o.Admitted = op.Conn, op.Admitted // the caller's
	if o.Client == 0 {
		o.Client = op.Client // the reply repeats it, which some tests go by
	}
	return o
}

// makers are the methods that make the operations.
var makers = map[opKind]func(o, op *Op){
	OpJoin:   func(o, op *Op) { o.Join(op.Name, op.Waiter) },
	OpUse:    func(o, op *Op) { o.Use(op.Name, op.Tube) },
	OpUnuse:  func(o, op *Op) { o.Unuse(op.Tube) },
	OpWatch:  func(o, op *Op) { o.Watch(op.Client, op.Name, op.Waiter, op.Mirror) },
	OpMirror: func(o, op *Op) { o.AskMirror(op.Tube) },
	OpIgnore: func(o, op *Op) { o.Ignore(op.Client, op.Tube) },
	OpReturn: func(o, op *Op) { o.ReturnJobs(op.Client) },
	OpClose:  func(o, op *Op) { o.Close(op.Client, op.Tube) },
	OpPut:    func(o, op *Op) { o.Put(op.Tube, op.ID, op.Pri, op.Delay, op.TTR, op.Body, op.Large) },
	OpReserve: func(o, op *Op) {
		switch {
		case op.Wait && op.Multi && op.Bound == MaxKey:
			o.ReserveQueued(op.Client, op.Seq, op.Until)
		case !op.Wait && op.Multi:
			o.ReserveBetter(op.Client, op.Bound, op.Seq)
		case op.Wait && op.Bound == MaxKey:
			o.ReserveOrWait(op.Client, op.Seq, op.Until)
		case !op.Wait && op.Bound == MaxKey:
			o.Reserve(op.Client)
		default: // no method asks so
			o.reserve(op.Client, op.Bound, op.Wait, op.Multi, op.Seq, op.Until)
		}
		o.Waiter = op.Waiter // the caller's
	},
	OpCancel:     func(o, op *Op) { o.CancelWait(op.Client) },
	OpReserveJob: func(o, op *Op) { o.ReserveJob(op.Client, op.ID, op.Waiter) },
	OpDelete: func(o, op *Op) {
		o.Delete(op.Client, op.ID)
		o.HeldOnly = op.HeldOnly // the caller's
	},
	OpRelease: func(o, op *Op) { o.Release(op.Client, op.ID, op.Pri, op.Delay) },
	OpBury:    func(o, op *Op) { o.Bury(op.Client, op.ID, op.Pri) },
	OpTouch:   func(o, op *Op) { o.Touch(op.Client, op.ID) },
	OpKick: func(o, op *Op) {
		o.Kick(op.Tube, op.N)
		if op.Kicked != kickUndecided {
			o.N += 3
			o.KickOn(&Reply{N: 3, Kicked: op.Kicked})
		}
	},
	OpKickJob:     func(o, op *Op) { o.KickJob(op.Client, op.ID) },
	OpPeek:        func(o, op *Op) { o.Peek(op.Client, op.ID) },
	OpPeekReady:   func(o, op *Op) { o.PeekReady(op.Tube) },
	OpPeekDelayed: func(o, op *Op) { o.PeekDelayed(op.Tube) },
	OpPeekBuried:  func(o, op *Op) { o.PeekBuried(op.Tube) },
	OpPause:       func(o, op *Op) { o.Pause(op.Name, op.Delay) },
	OpStatsJob:    func(o, op *Op) { o.StatsJob(op.Client, op.ID, op.JobStats) },
	OpStatsTube:   func(o, op *Op) { o.StatsTube(op.Name, op.TubeStats) },
	OpStats:       func(o, op *Op) { o.Stats(op.Counts) },
	opFlow:        func(o, op *Op) { o.AskFlow(op.Name, op.Operator) },
	opTubes:       func(o, op *Op) { o.ListTubes(op.Operator) },
	opHead:        func(o, op *Op) { o.ListHead(op.Name, State(op.N), op.Operator) },
	opList:        func(o, op *Op) { o.ListArrivals(op.Name, State(op.N), op.Operator) },
	opScan:        func(o, op *Op) { o.ScanJobs(op.Name, op.Operator) },
	opHeld:        func(o, op *Op) { o.ListHeld(ClientID(op.N), op.Seq, op.Operator) },
	opAskHolders:  func(o, op *Op) { o.AskHolders(op.Operator) },
	opPick:        func(o, op *Op) { o.PickJobs(op.Name, op.Operator.ids, op.Operator) },
	opJob:         func(o, op *Op) { o.AskJob(op.ID, op.Operator) },
	opMany:        func(o, op *Op) { o.ActOnMany(op.Operator.ids, op.Operator) },
	opFlushStep:   func(o, op *Op) { o.FlushStep(op.Name, State(op.N), op.Operator) },
	opEdit:        func(o, op *Op) { o.Edit(op.ID, op.Seq, op.Body, op.Large, op.Operator) },
	opPutCopies:   func(o, op *Op) { o.PutCopies(op.Name, op.Operator.ids, op.Operator) },
	opFlush: func(o, op *Op) {
		if op.Wait {
			o.CountFlush(op.Name, States(op.N), op.Operator)
		} else {
			o.Flush(op.Name, States(op.N), op.Operator)
		}
	},
	opSetPolicies:    func(o, op *Op) { o.SetPolicies(op.Operator.policies, op.Wait) },
	opAskFlushed:     func(o, op *Op) { o.AskFlushed(op.Seq) },
	opCreateFunction: func(o, op *Op) { o.CreateFunction(op.Name) },
	opDropFunction:   func(o, op *Op) { o.DropFunction(op.Name) },
	opLimitFunction:  func(o, op *Op) { o.LimitFunction(op.Name, op.Function.Limits) },
	opRegister:       func(o, op *Op) { o.Register(op.Client, op.Name, op.Function.Timeout, op.N == 1) },
	opUnregister:     func(o, op *Op) { o.Unregister(op.Client, op.Tube) },
	opSubmit: func(o, op *Op) {
		o.Submit(op.Client, &SubmitRequest{
			Function: op.Name, Pri: op.Pri, Body: op.Body, Large: op.Large,
			Unique: op.Function.Unique(), Reducer: op.Function.Reducer(), Background: op.Function.Background, ByBody: op.Function.ByBody,
			Due: op.Function.Due, Numbers: op.Function.Numbers,
		})
	},
	opGrab: func(o, op *Op) { o.Grab(op.Client, op.Tube, op.Bound) },
	opReport: func(o, op *Op) {
		if op.Function.Relay == RelayStatus {
			o.ReportStatus(op.Client, op.ID, op.Function.Numerator, op.Function.Denominator, op.Body)
			o.Large = op.Large
		} else {
			o.Report(op.Client, op.ID, op.Function.Relay, op.Body, op.Large)
		}
	},
	opJobStatus:     func(o, op *Op) { o.JobStatus(op.Client, op.ID) },
	opUniqueStatus:  func(o, op *Op) { o.UniqueStatus(op.Client, op.Function.Unique()) },
	opCancelJob:     func(o, op *Op) { o.CancelJob(op.ID) },
	opListFunctions: func(o, op *Op) { o.ListFunctions() },
	opListJobs:      func(o, op *Op) { o.ListJobs() },
}

// TestOpsLeaveNothingBehind: names and bodies of the operation before are not copied again by Keep.
func TestOpsLeaveNothingBehind(t *testing.T) {
	for kind := OpJoin; kind <= opAskFlushed; kind++ {
		if kind == functionKinds || kind == operatorKinds {
			kind++
		}
		o := made(&Op{Kind: kind, Function: new(FunctionOp), Operator: new(OperatorOp)})
		if o.Kind != kind || o.Client != 0 {
			t.Errorf("operation %d is made as %d, of client %d", kind, o.Kind, o.Client)
		}
		if o.Name != nil || o.Body != nil || o.Large != nil {
			t.Errorf("operation %d: %q, %q and %q are left", kind, o.Name, o.Body, o.Large)
		}
	}
}
