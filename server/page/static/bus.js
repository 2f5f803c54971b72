// All calls of the API, in one place.

import { get, inPath, post, request } from "./api.js";

/** The newest messages that fit, or the newest before a seq; the oldest of them first. */
export async function newest(parameters) {
  return (await get("/v1/newest", parameters)).messages;
}

/** One message with its payload, by seq or id. */
export function message(key) {
  return get(`/v1/messages/${inPath(String(key))}`);
}

/** The state of a message at each of its readers: { kind, name, state }. */
export async function receipts(seq) {
  return (await get(`/v1/receipts/${seq}`)).receipts;
}

/** The hits of a search, best first: { message, snippet, marks } each. */
export async function search(parameters) {
  return (await get("/v1/search", parameters)).messages;
}

export function publish(draft) {
  return post("/v1/messages", draft);
}

/** The bytes of a blob. */
export async function blob(ref) {
  return (await request(`/v1/blobs/${inPath(ref)}`)).blob();
}

/** The name of the project that the bus belongs to. */
export async function project() {
  return (await get("/page/project")).project;
}

/** How many bytes a blob has. */
export async function blobSize(ref) {
  const { headers } = await request(`/v1/blobs/${inPath(ref)}`, { method: "HEAD" });
  return Number(headers.get("Content-Length"));
}

export async function agents() {
  return (await get("/v1/agents")).agents;
}

export async function inboxes() {
  return (await get("/v1/inboxes")).inboxes;
}

export async function inbox(agent, limit) {
  return get(`/v1/inboxes/${inPath(agent)}`, { limit });
}

export async function parked(agent) {
  return (await get("/v1/parked", { agent })).parked;
}

export function requeueParked(agent, seqs) {
  return post(`/v1/inboxes/${inPath(agent)}/parked/requeue`, { seqs });
}

export function dropParked(agent, seqs) {
  return post(`/v1/inboxes/${inPath(agent)}/parked/drop`, { seqs });
}

/** The queues, with how they did in the last so many seconds. */
export async function queues(window_s) {
  return (await get("/v1/queues", { window_s })).queues;
}

export function queue(name, window_s) {
  return get(`/v1/queues/${inPath(name)}`, { window_s });
}

export async function jobs(queue, parameters) {
  return (await get("/v1/jobs", { queue, ...parameters })).jobs;
}

/** One job with its message and every attempt at it. */
export function job(queue, seq) {
  return get(`/v1/queues/${inPath(queue)}/jobs/${seq}`);
}

/** Lets a job that did not succeed be tried again. */
export function retryJob(queue, seq) {
  return post(`/v1/queues/${inPath(queue)}/jobs/${seq}/retry`);
}

/** Gives a job up; a worker that is at it learns that it lost its claim. */
export function cancelJob(queue, seq) {
  return post(`/v1/queues/${inPath(queue)}/jobs/${seq}/cancel`);
}

/** Lets dead letters be tried again: all that are named, or none. */
export function requeueDead(queue, seqs) {
  return post(`/v1/dead-letters/${inPath(queue)}/requeue`, { seqs });
}

/** Gives dead letters up: all that are named, or none. */
export function dropDead(queue, seqs) {
  return post(`/v1/dead-letters/${inPath(queue)}/drop`, { seqs });
}

export async function leases() {
  return (await get("/v1/leases")).leases;
}

export async function reservations() {
  return (await get("/v1/reservations")).reservations;
}
