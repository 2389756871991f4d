// Package house has the rules of this repository as tests: what packages import,
// how comments and pages are worded, how many names the API has, and which pages
// must agree with the code.
package house
