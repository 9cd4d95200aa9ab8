package core

import (
	"fmt"
	"testing"
)

// made is op once more, by the method of its name, in an Op that has held something else
// before in every field. Tests play their histories with it: a field that an operation
// reads and its method does not set would show.
func made(op *Op) *Op {
	junk := []byte("junk")
	o := &Op{
		Kind: 255, Kicked: 255, Wait: true, Multi: true, Mirror: true, Client: 1 << 30, Tube: 1 << 30,
		ID: 1 << 60, Pri: 77, N: 77, Admitted: 1 << 31, Delay: 77, TTR: 77, Name: junk, Body: junk,
		Large: Large{junk}, Bound: Key{7, 7}, Until: 7, Seq: 77, Waiter: new(Waiter),
		Figures: Figures{new(JobStats), new(TubeStats), new(Counts)}, Function: op.Function,
	}
	f := op.Function
	switch op.Kind {
	case OpJoin:
		o.Join(op.Name, op.Waiter)
	case OpUse:
		o.Use(op.Name, op.Tube)
	case OpUnuse:
		o.Unuse(op.Tube)
	case OpWatch:
		o.Watch(op.Client, op.Name, op.Waiter, op.Mirror)
	case OpMirror:
		o.AskMirror(op.Tube)
	case OpIgnore:
		o.Ignore(op.Client, op.Tube)
	case OpReturn:
		o.ReturnJobs(op.Client)
	case OpClose:
		o.Close(op.Client, op.Tube)
	case OpPut:
		o.Put(op.Tube, op.ID, op.Pri, op.Delay, op.TTR, op.Body, op.Large)
	case OpReserve:
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
	case OpCancel:
		o.CancelWait(op.Client)
	case OpReserveJob:
		o.ReserveJob(op.Client, op.ID, op.Waiter)
	case OpDelete:
		o.Delete(op.Client, op.ID)
	case OpRelease:
		o.Release(op.Client, op.ID, op.Pri, op.Delay)
	case OpBury:
		o.Bury(op.Client, op.ID, op.Pri)
		o.Admitted = op.Admitted
	case OpTouch:
		o.Touch(op.Client, op.ID)
	case OpKick:
		o.Kick(op.Tube, op.N)
		if op.Kicked != kickUndecided {
			o.N += 3
			o.KickOn(&Reply{N: 3, Kicked: op.Kicked})
		}
	case OpKickJob:
		o.KickJob(op.Client, op.ID)
	case OpPeek:
		o.Peek(op.Client, op.ID)
	case OpPeekReady:
		o.PeekReady(op.Tube)
	case OpPeekDelayed:
		o.PeekDelayed(op.Tube)
	case OpPeekBuried:
		o.PeekBuried(op.Tube)
	case OpPause:
		o.Pause(op.Name, op.Delay)
	case OpStatsJob:
		o.StatsJob(op.Client, op.ID, op.JobStats)
	case OpStatsTube:
		o.StatsTube(op.Name, op.TubeStats)
	case OpStats:
		o.Stats(op.Counts)
	case opFlow:
		o.AskFlow(op.Name, op.Operator)
	case opTubes:
		o.ListTubes(op.Operator)
	case opHead:
		o.ListHead(op.Name, State(op.N), op.Operator)
	case opList:
		o.ListArrivals(op.Name, State(op.N), op.Operator)
	case opScan:
		o.ScanJobs(op.Name, op.Operator)
	case opHeld:
		o.ListHeld(ClientID(op.N), op.Seq, op.Operator)
	case opAskHolders:
		o.AskHolders(op.Operator)
	case opPick:
		o.PickJobs(op.Operator.ids, op.Operator)
	case opJob:
		o.AskJob(op.ID, op.Operator)
	case opMany:
		o.ActOnMany(op.Operator.ids, op.Operator)
		o.Admitted = op.Admitted
	case opFlushStep:
		o.FlushStep(op.Name, State(op.N), op.Operator)
	case opEdit:
		o.Edit(op.ID, op.Seq, op.Body, op.Large, op.Operator)
	case opPutCopies:
		o.PutCopies(op.Name, op.Operator.ids, op.Operator)
	case opFlush:
		if op.Wait {
			o.CountFlush(op.Name, States(op.N), op.Operator)
		} else {
			o.Flush(op.Name, States(op.N), op.Operator)
		}
	case opAskFlushed:
		o.AskFlushed(op.Seq)
	case opCreateFunction:
		o.CreateFunction(op.Name)
	case opDropFunction:
		o.DropFunction(op.Name)
	case opLimitFunction:
		o.LimitFunction(op.Name, f.Limits)
	case opRegister:
		o.Register(op.Client, op.Name, f.Timeout, op.N == 1)
	case opUnregister:
		at := f.Cursor
		o.Unregister(op.Client, op.Tube)
		f.Cursor = at // a further visit
	case opSubmit:
		o.Submit(op.Client, &SubmitRequest{
			Function: op.Name, Pri: op.Pri, Body: op.Body, Large: op.Large,
			Unique: f.Unique(), Reducer: f.Reducer(), Background: f.Background, ByBody: f.ByBody,
			Due: f.Due, Numbers: f.Numbers,
		})
		o.Admitted = op.Admitted
	case opGrab:
		o.Grab(op.Client, op.Tube, op.Bound)
	case opReport:
		if f.Relay == RelayStatus {
			o.ReportStatus(op.Client, op.ID, f.Numerator, f.Denominator, op.Body)
			o.Large = op.Large
		} else {
			o.Report(op.Client, op.ID, f.Relay, op.Body, op.Large)
		}
	case opJobStatus:
		o.JobStatus(op.ID)
	case opUniqueStatus:
		at := f.Cursor
		o.UniqueStatus(f.Unique())
		f.Cursor = at
	case opCancelJob:
		o.CancelJob(op.ID)
	case opListFunctions:
		at := f.Cursor
		o.ListFunctions()
		f.Cursor = at
	case opListJobs:
		at := f.Cursor
		o.ListJobs()
		f.Cursor = at
	default:
		panic(fmt.Sprintf("operation %d has no method", op.Kind))
	}
	o.Conn = op.Conn // the caller's
	if o.Client == 0 {
		o.Client = op.Client // the reply repeats it, which some tests go by
	}
	return o
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
