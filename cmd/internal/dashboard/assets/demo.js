// The panel of the demo: try a request, and pause the traffic behind it.

import { T } from './texts.js';
import { get, post, problemOf } from './api.js';
import { bdi, button, every, field, h, latest, problemBox, setText, sign, submitButton } from './dom.js';
import { bucketTable } from './bucket.js';
import { countdown, exact } from './format.js';
import { connected } from './live.js';

const previewLength = 150;

export function demoPanel(demo, signal) {
	return h('details.card.demo', { open: true },
		h('summary', h('h2', T.tryRequest)),
		h('div.demo-parts', requestForm(demo, signal)), demo.traffic && trafficLine(demo, signal));
}

function requestForm(demo, signal) {
	const key = h('select', { name: 'key' }, (demo.keys ?? []).map((k) => h('option', { value: k.key }, k.label || k.key)));
	const model = h('select', { name: 'model' }, (demo.models ?? []).map((m) => h('option', { value: m }, m)));
	const shown = h('output.slider-value', '100');
	const most = h('input', { type: 'range', name: 'max_tokens', min: 50, max: 500, step: 50, value: 100, oninput: () => setText(shown, most.value) });
	const message = h('textarea', { name: 'message', rows: 2, dir: 'auto', maxlength: 4000 }, T.demoMessage);
	const stream = h('input', { type: 'checkbox', name: 'stream' });
	const submit = submitButton(T.send);
	const result = h('div.demo-result', { 'data-state': 'idle', role: 'status' }, h('p.muted', T.demoIdle));
	const next = latest(signal);
	const tried = h('div.tried');
	const follow = latest(signal);
	// The buckets of the tried key stand beside the answer: in the list below, they may be out of sight.
	const showTried = async () => {
		const inner = follow();
		const { rows } = await get('api/entity', { id: key.value }, inner).catch(() => ({ rows: [] }));
		if (inner.aborted) return;
		tried.replaceChildren(rows.length
			? bucketTable(T.tried(key.value), rows, { signal: inner, watching: new Set(), part: 'tried' }).element
			: h('p.muted', T.noBucketsOfEntity));
	};
	key.addEventListener('change', showTried);
	showTried();
	const send = async (event) => {
		event.preventDefault();
		const inner = next();
		submit.disabled = true;
		setText(submit, T.sending);
		const put = (state, ...parts) => {
			result.dataset.state = state;
			result.replaceChildren(...parts);
		};
		put('loading', h('p.muted', T.sending));
		try {
			await ask(demo.chat, key.value, {
				model: model.value, max_tokens: Number(most.value), messages: [{ role: 'user', content: message.value }], ...(stream.checked && { stream: true }),
			}, put, inner);
		} catch (err) {
			if (err.name !== 'AbortError') put('refused', problemBox({ title: T.unreachable, message: T.unreachableDetail }));
		}
		submit.disabled = false;
		setText(submit, T.send);
		showTried();
	};
	const slider = field(T.maxTokens, most);
	slider.querySelector('label').append(' ', shown);
	return [
		h('form.form', { onsubmit: send },
			h('div.pair', field(T.apiKey, key), field(T.model, model), slider), field(T.message, message),
			h('div.submit', submit, h('label.inline', stream, ' ', T.streamOption))),
		result, tried,
	];
}

async function ask(url, key, body, put, signal) {
	const response = await fetch(url, {
		method: 'POST', signal, credentials: 'same-origin', headers: { 'Content-Type': 'application/json', 'X-API-Key': key }, body: JSON.stringify(body),
	});
	if (response.status === 429) put('refused', ...refused(await response.json(), signal));
	else if (!response.ok) put('refused', problemBox(await problemOf(response)));
	else if ((response.headers.get('Content-Type') ?? '').startsWith('text/event-stream')) await streamed(response, put);
	else put('admitted', ...admitted(await response.json()));
}

function refused(body, signal) {
	const left = h('strong.countdown');
	const line = h('p', T.retryIn, ' ', left);
	const over = (body.limits ?? []).filter((l) => l.exceeded);
	if (over.some((l) => l.requested > l.capacity)) line.replaceChildren(h('strong', T.verdicts.never));
	else countdown(left, body.retry_after_seconds ?? 0, signal, () => line.replaceChildren(h('strong', T.retryNow)));
	return [
		h('p.verdict-line', sign('✕'), ' ', T.refused429),
		h('ul.reasons', over.map((l) => h('li', bdi(l.entity_id), ' · ', bdi(l.resource), ' · ', bdi(l.limit_name), ': ',
			T.refusal(exact(l.requested, l.limit_name), exact(l.available, l.limit_name), exact(l.capacity, l.limit_name))))),
		line,
		body.message ? h('p.muted', { dir: 'auto' }, body.message) : null,
	].filter(Boolean);
}

function admitted(body) {
	const text = body.choices?.[0]?.message?.content ?? '';
	const usage = body.usage ?? {};
	return [
		h('p.verdict-line', sign('✓'), ' ', T.admitted),
		h('p', bdi(body.model ?? ''), ' · ', T.tokens(exact(usage.prompt_tokens ?? 0), exact(usage.completion_tokens ?? 0), exact(usage.total_tokens ?? 0))),
		h('blockquote', { dir: 'auto' }, text.length > previewLength ? `${text.slice(0, previewLength)}…` : text),
	];
}

async function streamed(response, put) {
	const body = { model: '', usage: null, choices: [{ message: { content: '' } }] };
	const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = '';
	for (;;) {
		const { value, done } = await reader.read();
		if (done) break;
		const lines = (rest + value).split('\n');
		rest = lines.pop();
		for (const line of lines) takeChunk(line, body);
		put('admitted', ...admitted(body));
	}
	put('admitted', ...admitted(body));
}

function takeChunk(line, body) {
	const data = line.startsWith('data:') ? line.slice(5).trim() : '';
	if (!data || data === '[DONE]') return;
	const chunk = JSON.parse(data);
	body.model = chunk.model || body.model;
	body.usage = chunk.usage ?? body.usage;
	body.choices[0].message.content += chunk.choices?.[0]?.delta?.content ?? '';
}

function trafficLine(demo, signal) {
	const words = h('span.traffic-words', { role: 'status' });
	const counts = h('span.muted');
	const toggle = button('', () => change(), { class: 'quiet', disabled: true });
	let paused = false;
	const put = (answer) => {
		paused = answer.paused;
		toggle.disabled = false;
		setText(toggle, paused ? T.resume : T.pause);
		setText(words, paused ? T.trafficPaused : T.trafficRuns);
		if (answer.calls != null) setText(counts, T.trafficCounts(exact(answer.calls), exact(answer.admitted), exact(answer.refused)));
	};
	const load = () => get(demo.traffic, null, signal).then(put, () => {});
	const change = () => post(demo.traffic, { paused: !paused }, signal).then(put, () => setText(words, T.unreachable));
	load();
	every(2000, signal, () => connected() && load());
	return h('div.traffic', words, toggle, counts);
}
