"""Mistakes of a user: a type checker finds each line that is marked, and no other."""

from __future__ import annotations

from ackbus import Bus, Draft, Inbox, Message, Queue, Request, Session, Worker


async def later(message: Message) -> None:
    del message


def mail(bus: Bus) -> None:
    bus.publish("note", "text")  # wrong: no sender
    bus.publish("note", "text", from_agent=5)  # wrong
    bus.publish("note", "text", from_agent="a", to="b")  # wrong: to_agent
    bus.publish("note", "text", from_agent="a", priority="high")  # wrong
    bus.publish_many(["note"])  # wrong
    Draft("note", sender="a")  # wrong: from_agent
    bus.inbox("a", max_delivery=3)  # wrong: max_deliveries
    inbox = bus.inbox("a")
    inbox.poll("10")  # wrong
    inbox.poll(wait="10s")  # wrong: wait_s
    inbox.ack("5")  # wrong
    inbox.run(later)  # wrong: a coroutine function
    inbox.rules()  # wrong: internal
    for message in inbox.poll():
        message.reply("done", from_agent=None, priority=1)  # wrong: no such field
        message.sender  # wrong  # noqa: B018


def opened() -> None:
    Bus.open("state", durabilty="full")  # wrong: durability
    Bus.open("state", durability="always")  # wrong
    Bus.init("state", write_timeout="5")  # wrong: write_timeout_s
    Bus.open("state", clock="now")  # wrong


def work(bus: Bus) -> None:
    queue = Queue.create(bus, "q")
    Queue.create(bus, "q", max_atempts=3)  # wrong: max_attempts
    Queue.create(bus, "q", max_attempts="3")  # wrong
    bus.create_queue("q", ordering="newest")  # wrong
    Queue.create(bus, "q", on_lost="retry")  # wrong
    queue.claim("me", limit="1")  # wrong
    queue.complete("claim")  # wrong
    queue.jobs.retry("5")  # wrong
    queue.stats(window="1h")  # wrong: window_s
    Worker(bus, queue, threads=2)  # wrong: concurrency
    bus.worker(queue, threads=2)  # wrong: concurrency
    bus.inbox(7)  # wrong


def talk(bus: Bus) -> None:
    Request.send(bus, "a.request", form_agent="a")  # wrong: from_agent
    Request.send(bus, "a.request", from_agent="a", sucess_type="b")  # wrong: success_type
    bus.request("a.request", from_agent="a", timeout="5")  # wrong: timeout_s
    Request.send(bus, "a.request", from_agent="a").wait("5")  # wrong
    bus.session("a", max_delivery=3)  # wrong: max_deliveries
    with Session(bus, "a") as me:
        me.publish("note", "text", prio=1)  # wrong: priority


async def talk_async(bus: Bus) -> None:
    await bus.publish_async("note", "text", to_agent="b")  # wrong: no sender
    sent = await Request.send_async(bus, "a.request", from_agent="a")
    (await sent.wait_async(5)).state == "done"  # wrong: no such state  # noqa: B015
    sent.wait_async(timeout_s="5")  # wrong
    async with Session(bus, "a", interval="5s"):  # wrong: interval_s
        pass


def states(bus: Bus) -> None:
    queue = Queue.open(bus, "q")
    queue.jobs.list("complete")  # wrong: succeeded
    queue.dead_letters.find(("lost",))  # wrong
    bus.limits.clear("agent", "a")  # wrong: inbox
    bus.settings.set_durability("high")  # wrong
    Inbox(bus, "a").join(start="end")  # wrong
    if queue.jobs.get(1).state == "done":  # wrong: no such state
        pass


def look(bus: Bus) -> None:
    bus.read(from_seq=5)  # wrong: after_seq
    bus.read(type=5)  # wrong
    bus.search("word", types="note")  # wrong: type
    bus.search("word", limit="5")  # wrong
    bus.leases.acquire("name")  # wrong: no holder
    bus.leases.acquire("name", "me", ttl="5s")  # wrong: lease_s
    lease = bus.leases.acquire("name", "me")
    bus.leases.renew(lease)  # wrong: it may be None
