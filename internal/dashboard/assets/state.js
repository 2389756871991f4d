// What all views share.

// state holds what the server said about itself and the session.
export const state = { info: null };

// canChange reports whether the session may change limits and entities.
export function canChange() {
	return Boolean(state.info?.write && state.info.role === 'admin');
}

// keyOf names a bucket.
export function keyOf(entity, resource) {
	return JSON.stringify([entity, resource]);
}

const seen = new Map();

// remember keeps the latest rows, for the suggestions of forms.
export function remember(rows) {
	for (const row of rows) {
		seen.delete(row.entity);
		seen.set(row.entity, row);
	}
	while (seen.size > 500) seen.delete(seen.keys().next().value);
}

// entitiesSeen returns IDs of entities that the page showed.
export function entitiesSeen() {
	return [...seen.keys()];
}

// limitsSeen returns the names of limits that the page showed for an entity, or for any.
export function limitsSeen(entity) {
	const rows = seen.has(entity) ? [seen.get(entity)] : [...seen.values()];
	return [...new Set(rows.flatMap((row) => row.limits.map((l) => l.name)))];
}
