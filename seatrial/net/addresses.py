"""Which addresses may be connected to: public ones, and those in networks the operator allows."""

import ipaddress
import logging
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from seatrial.net.errors import AddressRefusedError, NameUnknownError, NotConnectedError

log = logging.getLogger(__name__)

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve: TypeAlias = Callable[[str, int], Sequence[str]]
"""From host and port to addresses."""

SETTING = "SEATRIAL_ENDPOINT_ALLOWED_NETWORKS"
ALLOWING = f"""{SETTING}, such as '["127.0.0.1/32"]'"""
"""The setting as a shell sets it."""

# IANA's registries of special-purpose addresses, written out: what `ipaddress` calls global differs between patch
# releases of Python, and it counts multicast and 6to4 in.
_REFUSED: tuple[tuple[Network, str], ...] = tuple(
    (ipaddress.ip_network(block), kind)
    for block, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "cloud metadata"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("ff00::/8", "multicast"),
        ("2001::/32", "Teredo"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("3fff::/20", "documentation"),
    )
)
# All that is routed on the IPv6 internet is in here.
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def refusal(address: Address, allowed: Sequence[Network], *, allowed_only: bool = False) -> str | None:
    """Return of what kind a refused address is, or None for one that may be connected to.

    An IPv6 address that a translator turns into an IPv4 one (mapped, NAT64, 6to4) is judged by that one.

    Args:
        address: Where a connection would go.
        allowed: Networks the operator allows whatever they are.
        allowed_only: Refuse what is outside of them even if it is public.

    >>> refusal(ipaddress.ip_address("::ffff:169.254.169.254"), [])
    'link-local'
    >>> refusal(ipaddress.ip_address("8.8.8.8"), []) is None
    True
    """
    meant = _translated(address)
    if any(one in network for one in (address, meant) for network in allowed):
        return None
    if allowed_only:
        return "not allowed"
    for network, kind in _REFUSED:
        if meant in network:
            return kind
    return "reserved" if meant.version == 6 and meant not in _GLOBAL_UNICAST else None


def _translated(address: Address) -> Address:
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _NAT64:
            return ipaddress.IPv4Address(address.packed[-4:])
    return address


def check_host(host: str, allowed: Sequence[Network]) -> None:
    """Raise for a host that can be refused without looking it up: an address in whatever spelling, or localhost.

    Any other name passes: what it stands for is checked when it is connected to.

    Raises:
        AddressRefusedError: It is private, local or reserved, and not in an allowed network.

    >>> check_host("0x7f.1", [])
    Traceback (most recent call last):
    seatrial.net.errors.AddressRefusedError: 0x7f.1 is no public address (loopback): ...
    """
    kinds = [refusal(address, allowed) for address in _spelled_out(host)]
    if kinds and all(kinds):
        raise AddressRefusedError(
            f"{host} is no public address ({kinds[0]}): others are asked only in networks the operator allows "
            f"({ALLOWING})"
        )


def _spelled_out(host: str) -> list[Address]:
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return [ipaddress.IPv4Address("127.0.0.1"), ipaddress.IPv6Address("::1")]
    with suppress(ValueError):
        return [ipaddress.ip_address(name)]
    # As resolvers read them: 2130706433, 0x7f.1, 0177.0.0.1.
    with suppress(OSError, ValueError):
        return [ipaddress.IPv4Address(socket.inet_aton(name))]
    return []


def system_addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a host, as the machine's own resolver tells them.

    Raises:
        NameUnknownError: It has none.
        NotConnectedError: The resolver does not answer at present.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            raise NotConnectedError(f"the name {host} cannot be looked up at present") from error
        raise NameUnknownError(f"the name {host} is not known") from error
    # A label that is empty or too long fails in the encoding.
    except (UnicodeError, OSError) as error:
        raise NameUnknownError(f"the name {host} cannot be looked up") from error
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in addresses))


def checked_addresses(
    host: str, port: int, resolve: Resolve, allowed: Sequence[Network], *, allowed_only: bool = False
) -> list[Address]:
    """Return the addresses of a host, every one of which may be connected to.

    Raises:
        AddressRefusedError: One may not; a name with a public and a private address is refused as a whole.
        NameUnknownError: There are none.
        NotConnectedError: The resolver does not answer at present.
    """
    addresses = []
    for text in resolve(host, port):
        try:
            address = ipaddress.ip_address(text)
        except ValueError as error:
            raise NameUnknownError(f"the name {host} leads to something that is no address") from error
        kind = refusal(address, allowed, allowed_only=allowed_only)
        if kind is not None:
            log.warning("refused to connect to %s: %s is %s", host, address, kind)
            what = "an address outside of the allowed networks" if allowed_only else f"no public address ({kind})"
            raise AddressRefusedError(
                f"{host} leads to {what}: others are asked only in networks the operator allows ({ALLOWING})"
            )
        addresses.append(address)
    if not addresses:
        raise NameUnknownError(f"the name {host} has no address")
    return addresses
