"""The field `protocol` of a response: it may be left out, and is checked where it is there."""

import pytest

from ackbus.schema.errors import InvalidInput
from ackbus.workers.json_contract import parse_response


@pytest.mark.requirement("Q-13")
def test_a_response_may_echo_the_protocol() -> None:
    response = {"status": "ok", "result": "done"}
    assert parse_response(b'{"status": "ok", "result": "done"}') == response
    echoed = parse_response(b'{"protocol": 2, "status": "ok", "result": "done"}')
    assert echoed == response | {"protocol": 2}


@pytest.mark.requirement("Q-13")
@pytest.mark.parametrize("protocol", ["1", "3", '"2"', "null"])
def test_a_response_of_another_protocol_is_refused(protocol: str) -> None:
    with pytest.raises(InvalidInput, match="the response is of protocol"):
        parse_response(f'{{"protocol": {protocol}, "status": "ok", "result": "x"}}'.encode())
