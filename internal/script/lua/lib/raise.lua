-- raise sets the TTL of a key to at least ms and never shortens it.
local function raise(key, ms)
  -- Written even if the TTL is long enough: a replica may have an older one. Up to 2^53 a number is exact and is written without an
  -- exponent, as PEXPIRE requires. No lease is that long.
  redis.call('pexpire', key, math.min(math.max(redis.call('pttl', key), ms), 2 ^ 53))
end
