//go:build !linux

package router

// pollHangUp: POLLHUP, which comes unasked, also tells of a half-close here.
const pollHangUp = 0
