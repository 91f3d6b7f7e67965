-- Renew many read leases, each for its own time and its own owner only, and never shorten one.
-- USES  raise
-- KEYS  2i - 1  a lock
--       2i      prefix of the reader's own keys: a migrating slot refuses the call, since some of
--               them may be on the other node
-- ARGV  2i - 1  lease time in ms
--       2i      the owner of lease i
-- RETURN  a list: 1 renewed, 0 that owner does not hold it
local renewed = {}
-- The count is stored data and is not trusted. A lease is alive if one of its keys exists, so it is enough to raise some of them:
-- ten of each lease, and a limited number of further keys for all leases together.
local DEPTH, steps = 1000, 1000
for i = 1, #KEYS / 2 do
  renewed[i] = 0
  -- A key that is no longer a lock must not prevent the renewal of the others.
  local count = redis.call('type', KEYS[2 * i - 1]).ok == 'hash' and redis.call('hget', KEYS[2 * i - 1], ARGV[2 * i])
  for n = 1, math.min(tonumber(count or nil) or 0, DEPTH) do
    if n > 10 and steps == 0 then break end
    if n > 10 then steps = steps - 1 end
    local own = KEYS[2 * i] .. ':' .. n
    if redis.call('type', own).ok == 'string' then
      if renewed[i] == 0 then raise(KEYS[2 * i - 1], ARGV[2 * i - 1]) end -- first, as in rwmutex_read_acquire
      renewed[i] = 1
      raise(own, ARGV[2 * i - 1])
    end
  end
end
return renewed
