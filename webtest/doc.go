// Package webtest tests the dashboard and the web demo in a real browser, as a
// user meets them: the program runs as a process, and Chromium shows its page.
//
// The tests have a module of their own, since a driver of browsers is no
// dependency of the library.
package webtest
