// Requests to the server of the page.

import { T } from './texts.js';

// Problem holds what the server said about a request that it refused.
export class Problem extends Error {
	constructor(status, title, detail) {
		super(detail || title);
		this.status = status;
		this.title = title;
		this.detail = detail;
	}
}

let whenSignedOut = () => {};

export function onSignedOut(call) {
	whenSignedOut = call;
}

async function problemOf(response) {
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
	if (response.status === 401 && path !== 'api/session') whenSignedOut();
	throw await problemOf(response);
}

export function get(path, query, signal) {
	const given = Object.entries(query ?? {}).filter(([, v]) => v != null && v !== '');
	const text = new URLSearchParams(given).toString();
	return send(text ? `${path}?${text}` : path, { signal });
}

export function post(path, body, signal) {
	const headers = { 'Content-Type': 'application/json' };
	return send(path, { method: 'POST', headers, body: JSON.stringify(body), signal });
}

export function signIn(token) {
	return post('api/session', { token });
}

export function signOut() {
	return send('api/session', { method: 'DELETE', headers: { 'Content-Type': 'application/json' } });
}
