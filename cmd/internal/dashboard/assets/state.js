// What all views share.

export const state = { info: null };

export function canChange() {
	return Boolean(state.info?.write);
}

export function keyOf(entity, resource) {
	return JSON.stringify([entity, resource]);
}
