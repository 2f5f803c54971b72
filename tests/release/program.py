"""A user's program: mail that is acknowledged, work that is answered, a lease, an error."""

from ackbus import AckbusError, Bus, Inbox, Message, Request, Worker


def double(message: Message) -> int:
    number = message.payload
    if not isinstance(number, int):
        raise ValueError("double needs an integer")
    return 2 * number


def read_mail(bus: Bus, agent: str) -> list[str]:
    inbox = Inbox(bus, agent)
    types: list[str] = []
    for message in inbox.poll(limit=10):
        types.append(message.type)
        inbox.ack(message.seq)
    return types


def ask(bus: Bus, number: int) -> object:
    request = Request.send(bus, "double.request", number, from_agent="alice")
    Worker(bus, "double.request").run(double, drain=True)
    reply = request.wait(timeout_s=10).reply
    return reply.payload if reply else None


def main() -> None:
    with Bus.init("program-state") as bus:
        bus.heartbeats.beat("bob")
        bus.publish("greeting", {"text": "hello"}, from_agent="alice", to_agent="bob")
        print("mail:", read_mail(bus, "bob"))
        print("answer:", ask(bus, 21))
        lease = bus.leases.acquire("release", "alice", ttl_s=30)
        print("lease:", lease.holder if lease else None)
        try:
            bus.publish("", None, from_agent="alice")
        except AckbusError as error:
            print("exit code:", error.exit_code)


if __name__ == "__main__":
    main()
