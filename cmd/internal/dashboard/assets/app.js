// The frame of the page: session, views, connection and footer.

import { T } from './texts.js';
import { get, inSession, knownSession, onSignedOut, openSession, signIn, signOut } from './api.js';
import { bdi, button, field, h, problemBox, setText, sign, submitButton } from './dom.js';
import { clock, duration, exact } from './format.js';
import * as live from './live.js';
import { canChange, state } from './state.js';
import * as changes from './changes.js';
import * as entity from './entity.js';
import * as explain from './explain.js';
import * as overview from './overview.js';
import * as resource from './resource.js';
import * as whatIf from './whatif.js';

const views = {
	'': { view: overview, label: T.overview },
	resource: { view: resource, label: T.resources },
	explain: { view: explain, label: T.explain },
	'what-if': { view: whatIf, label: T.whatIf },
	changes: { view: changes, label: T.changes, allowed: canChange },
	entity: { view: entity, hidden: true, label: T.entity },
};

const byID = (id) => document.getElementById(id);
const main = byID('main');
const positions = new Map();
let leave = null;
let visit = 0;
let position = null;

function takeToken() {
	const found = /^#token=(.+)$/.exec(location.hash);
	if (!found) return '';
	history.replaceState(null, '', location.pathname + location.search);
	try {
		return decodeURIComponent(found[1]);
	} catch {
		return found[1];
	}
}

function parse() {
	const [path, query] = location.hash.replace(/^#\/?/, '').split('?', 2);
	return { path, params: new URLSearchParams(query ?? '') };
}

function setTitle(text) {
	document.title = [text, state.info?.namespace, T.product].filter(Boolean).join(' · ');
}

// render shows the view of the address, and moves the focus to its heading if the reader came
// from another view. A visited entry of the history gets its place back.
function render(moved) {
	if (!state.info || location.hash === '#main') return;
	leave?.abort();
	leave = new AbortController();
	const { path, params } = parse();
	const found = Object.hasOwn(views, path) && views[path];
	const known = positions.get(history.state?.visit);
	if (history.state?.visit == null) {
		visit += 1;
		history.replaceState({ visit: `${visit}-${Date.now()}` }, '');
	}
	position = history.state.visit;
	main.replaceChildren();
	live.watch([]);
	let title = null;
	const heading = (...content) => {
		title = h('h1', { tabindex: -1 }, ...content);
		return title;
	};
	drawNav(path);
	if (!found) {
		setTitle(T.notFound);
		main.append(heading(T.notFound), h('p', h('a', { href: '#/' }, T.toOverview)));
	} else {
		setTitle(found.label);
		found.view.show({ main, params, signal: leave.signal, heading, title: setTitle });
	}
	if (moved) title?.focus({ preventScroll: true });
	scrollTo(0, known ?? 0);
}

function drawNav(path) {
	const items = Object.entries(views).filter(([, v]) => !v.hidden && (v.allowed?.() ?? true));
	byID('nav').replaceChildren(...items.map(([key, v]) => h('a', { href: `#/${key}`, 'aria-current': key === path ? 'page' : null }, v.label)));
	document.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' });
}

function tokenForm(problem) {
	leave?.abort();
	live.stop();
	state.info = null;
	setTitle(T.signIn);
	byID('pill').hidden = true;
	byID('reconnect').hidden = true;
	setText(byID('retry'), '');
	byID('nav').replaceChildren();
	byID('footer').replaceChildren();
	const token = h('input', { type: 'password', name: 'token', required: true, autocomplete: 'off', spellcheck: 'false' });
	const submit = submitButton(T.signIn);
	const box = h('div', problem && problemBox(problem));
	const enterToken = async (event) => {
		event.preventDefault();
		submit.disabled = true;
		try {
			openSession(await signIn(token.value.trim()));
			return;
		} catch (err) {
			box.replaceChildren(problemBox(err));
			token.value = '';
			token.focus();
		}
		submit.disabled = false;
	};
	main.replaceChildren(h('div.door', h('h1', { tabindex: -1 }, T.signIn), h('p.lead', T.tokenLead), box,
		h('form.card.form', { onsubmit: enterToken }, field(T.token, token), h('div.submit', submit))));
	token.focus();
}

const footer = { rate: h('span'), update: h('span') };

function drawFooter() {
	const { info } = state;
	const pair = (term, ...value) => h('div', h('dt', term), h('dd', ...value));
	byID('footer').replaceChildren(
		h('dl', null,
			pair(T.store, bdi(info.store)), pair(T.namespace, bdi(info.namespace)),
			info.read_budget && pair(T.readBudget, footer.rate),
			pair(T.lastUpdate, footer.update),
			pair(T.principal, bdi(info.principal || '–'), ` (${canChange() ? T.mayChange : T.mayRead})`),
			pair(T.version, info.version)),
		info.kind === 'demo' || info.principal === 'anonymous' ? '' : button(T.signOut, signOut, { class: 'quiet' }));
	setText(footer.update, footer.update.textContent || '–');
	drawRate({ read_rate: info.read_rate });
}

function drawRate(status) {
	if (!state.info?.read_budget) return;
	setText(footer.rate, T.budget(exact(status.read_rate ?? 0), exact(state.info.read_budget)));
}

let troubleText = '';

function drawStatus(status) {
	drawRate(status);
	if ((status.trouble ?? '') === troubleText) return;
	troubleText = status.trouble ?? '';
	byID('trouble')?.remove();
	if (troubleText) main.before(h('div', { id: 'trouble', class: 'trouble', role: 'alert' }, sign('▲'), ' ', T.trouble, ' ', bdi(troubleText)));
}

let retryAt = 0;

function drawState({ state: now, retryIn }) {
	const pill = byID('pill');
	pill.hidden = false;
	pill.dataset.state = now;
	setText(pill, T.states[now]);
	byID('reconnect').hidden = now !== 'disconnected';
	retryAt = now === 'disconnected' ? performance.now() + retryIn * 1000 : 0;
	drawRetry();
}

function drawRetry() {
	const left = (retryAt - performance.now()) / 1000;
	setText(byID('retry'), retryAt && left > 0 ? T.nextTry(duration(left)) : '');
}

async function open() {
	state.info = await get('api/info');
	drawFooter();
	render();
	live.start();
}

async function begin() {
	history.scrollRestoration = 'manual';
	setText(byID('pill'), T.states.connecting);
	main.append(h('p.loading', T.loading));
	drawNav(parse().path);
	live.on('state', drawState);
	live.on('status', drawStatus);
	live.on('rows', () => setText(footer.update, clock(new Date())));
	byID('reconnect').addEventListener('click', () => live.start());
	addEventListener('scroll', () => positions.set(position, scrollY), { passive: true });
	addEventListener('hashchange', arrive);
	setInterval(drawRetry, 500);
	document.querySelector('.skip').addEventListener('click', (event) => {
		event.preventDefault();
		main.focus();
	});
	onSignedOut(() => tokenForm());
	await enter(takeToken());
}

// enter signs in with the token of a link, if there is one, or goes on with the last session.
async function enter(token) {
	let refused = null;
	try {
		const path = (token && await signIn(token, true).catch((err) => { refused = err; })) || await knownSession();
		if (path) openSession(path);
		else await open();
	} catch (err) {
		if (err.status === 401 && inSession) return; // on the way to the root
		if (err.status === 401) tokenForm(refused);
		else if (err.status === 403) tokenForm(refused ?? err);
		else main.replaceChildren(h('h1', { tabindex: -1 }, T.product), problemBox(err, () => enter('')));
	}
}

function arrive() {
	const token = takeToken();
	if (token) enter(token);
	else render(true);
}

begin();
