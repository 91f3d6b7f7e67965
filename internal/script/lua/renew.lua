-- Renew many leases, each for its own time and its own owner only, and never shorten one.
-- USES  raise
-- KEYS  i       a lock
-- ARGV  2i - 1  lease time in ms
--       2i      the owner of lock i
-- RETURN  a list: 1 renewed, 0 that owner does not hold it
local renewed = {}
for i, key in ipairs(KEYS) do
  -- A key that is no longer a lock must not prevent the renewal of the others.
  renewed[i] = redis.call('type', key).ok == 'hash' and redis.call('hexists', key, ARGV[2 * i]) or 0
  if renewed[i] == 1 then raise(key, ARGV[2 * i - 1]) end
end
return renewed
