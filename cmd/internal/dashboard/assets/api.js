// Requests to the server of the page.

import { T } from './texts.js';

// Problem holds what the server said about a request that it refused.
class Problem extends Error {
	constructor(status, title, detail) {
		super(detail || title);
		Object.assign(this, { status, title });
	}
}

let whenSignedOut = () => {};

export function onSignedOut(call) {
	whenSignedOut = call;
}

export async function problemOf(response) {
	let document = {};
	try {
		document = await response.json();
	} catch {
		// The status says enough.
	}
	return new Problem(response.status, document.title || T.failed(response.status), document.detail);
}

async function send(path, options) {
	let response;
	try {
		response = await fetch(path, { credentials: 'same-origin', cache: 'no-store', ...options });
	} catch (err) {
		if (err.name === 'AbortError') throw err;
		throw new Problem(0, T.unreachable, T.unreachableDetail);
	}
	if (response.ok) return response.status === 204 ? null : response.json();
	if (response.status === 401 && path !== 'api/session') (inSession ? endSession : whenSignedOut)();
	throw await problemOf(response);
}

// query adds the parameters that have a value to a path.
export function query(path, params) {
	const text = new URLSearchParams(Object.entries(params ?? {}).filter(([, v]) => v != null && v !== '')).toString();
	return text ? `${path}?${text}` : path;
}

export function get(path, params, signal) {
	return send(query(path, params), { signal });
}

export function post(path, body, signal) {
	const headers = { 'Content-Type': 'application/json' };
	return send(path, { method: 'POST', headers, body: JSON.stringify(body), signal });
}

// Each session has an address of its own below the root, which other pages cannot know. The
// root keeps the last one for new tabs.
const [, root, own] = /^(.*?\/)(s\/[\w-]+\/)?$/.exec(location.pathname);
const place = `session of ${root}`;

export const inSession = Boolean(own);

function kept(change) {
	try {
		return change(localStorage);
	} catch {
		return null; // the browser keeps nothing for this page
	}
}

// openSession leaves for the address of a session, or for the root without one.
export function openSession(path, hash = location.hash) {
	location.replace(root + (path ?? '') + hash);
}

// signIn exchanges a token for the path of a session.
export async function signIn(token, link) {
	const { path } = await post('api/session', { token, link });
	kept((store) => store.setItem(place, path));
	return path;
}

// knownSession returns the path of the last session, or null if it is over.
export async function knownSession() {
	const path = inSession ? null : kept((store) => store.getItem(place));
	const answer = path && await fetch(`${path}api/info`).catch(() => null);
	if (answer?.status === 401) return forget(path);
	return answer && path;
}

function forget(path) {
	kept((store) => store.getItem(place) === path && store.removeItem(place));
	return null;
}

// endSession forgets the session, and everything that the page knows from it.
function endSession(hash) {
	forget(own);
	openSession(null, hash);
}

export async function signOut() {
	await send('api/session', { method: 'DELETE' }).catch(() => {});
	endSession('');
}
