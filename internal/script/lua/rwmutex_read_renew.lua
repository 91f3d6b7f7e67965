-- Renew many read leases, each for its own time and its own owner only, and never shorten one.
-- KEYS  2i - 1  a lock
--       2i      what the names of the reader's own keys begin with: no slot that is being moved serves
--               this, since some of them may be on the other side
-- ARGV  2i - 1  lease time in ms
--       2i      the owner of lease i
-- RETURN  a list: 1 renewed, 0 that owner does not hold it
local renewed = {}
-- The count is stored data and not trusted. A lease is alive if one of its keys is, so it is enough to raise some of them: ten,
-- and of all leases so many more.
local DEPTH, steps = 1000, 1000
for i = 1, #KEYS / 2 do
  renewed[i] = 0
  -- One key that is no lock any more must not keep the others from being renewed.
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
