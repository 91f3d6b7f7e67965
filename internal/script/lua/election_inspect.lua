-- Look who leads.
-- KEYS  1 the lock that the leader holds
--       2 the counter of terms
-- RETURN  the ms until it is free if it is not renewed: -1 without end, -2 nobody leads
--         owner, what it says of itself, term: if somebody leads and has said so
local found = { redis.call('pttl', KEYS[1]) }
-- A hash with other fields, or with a longer one, is not that of an election.
if redis.call('hlen', KEYS[1]) ~= 2 or redis.call('hstrlen', KEYS[1], 'leader') > 65536 then return found end
local fields = redis.call('hgetall', KEYS[1])
local owner, said
for i = 1, #fields, 2 do
  if fields[i] == 'leader' then said = fields[i + 1] else owner = fields[i] end
end
if owner and said then
  return { found[1], owner, said, redis.call('get', KEYS[2]) or '0' }
end
return found
