// The stream of changes: one connection for the page, and the keys that it watches.

import { get, post } from './api.js';
import { setServerTime } from './format.js';

const listeners = { rows: new Set(), state: new Set(), status: new Set() };
const longest = 30000;

let source = null;
let id = '';
let keys = [];
let sent = '';
let failures = 0;
let retryTimer = 0;
let watchTimer = 0;
let stopped = true;
let state = 'connecting';

// on calls a listener for rows, state or status until the signal aborts.
export function on(kind, listener, signal) {
	listeners[kind].add(listener);
	signal?.addEventListener('abort', () => listeners[kind].delete(listener));
}

function emit(kind, value) {
	for (const listener of listeners[kind]) listener(value);
}

function setState(next, retryIn) {
	state = next;
	emit('state', { state, retryIn });
}

// connected reports whether the stream is open, so that polling makes sense.
export function connected() {
	return state === 'live';
}

// start connects, at once even if a retry is due later.
export function start() {
	stopped = false;
	close();
	setState('connecting');
	source = new EventSource('api/stream');
	source.addEventListener('hello', (e) => hello(JSON.parse(e.data)));
	source.addEventListener('rows', (e) => changed(JSON.parse(e.data)));
	source.addEventListener('status', (e) => emit('status', JSON.parse(e.data)));
	source.onerror = () => lost();
}

export function stop() {
	stopped = true;
	close();
}

function close() {
	clearTimeout(retryTimer);
	source?.close();
	source = null;
	id = '';
}

function hello(message) {
	id = message.id;
	failures = 0;
	sent = '';
	setState('live');
	sendKeys();
}

function changed(message) {
	setServerTime(message.at);
	emit('rows', message);
}

// lost plans the next attempt. A stream does not say why it ended, so a request asks
// whether the session still holds.
function lost() {
	close();
	if (stopped) return;
	const wait = Math.min(longest, 1000 * 2 ** failures) * (0.75 + Math.random() / 2);
	failures += 1;
	setState('disconnected', wait / 1000);
	retryTimer = setTimeout(start, wait);
	get('api/info').catch(() => {});
}

const watched = new Map();

// watch names the buckets that a part of the page shows. Without a part, they replace all others.
export function watch(next, part = '') {
	if (!part) watched.clear();
	watched.set(part, next);
	keys = [...watched.values()].flat().slice(0, 500);
	clearTimeout(watchTimer);
	watchTimer = setTimeout(sendKeys, 120);
}

async function sendKeys() {
	const wanted = document.hidden ? [] : keys;
	const text = JSON.stringify(wanted);
	if (!id || text === sent) return;
	sent = text;
	try {
		await post('api/watch', { id, keys: wanted });
	} catch {
		sent = '';
		clearTimeout(watchTimer);
		watchTimer = setTimeout(sendKeys, 2000);
	}
}

document.addEventListener('visibilitychange', sendKeys);
