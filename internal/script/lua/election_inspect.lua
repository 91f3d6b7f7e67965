-- Return the leader of an election.
-- USES  counter
-- KEYS  1 the lock that the leader holds
--       2 the counter of terms
-- RETURN  the remaining ms of the leader's lease: -1 without end, -2 no leader
--         owner, its proclaimed value, term: if there is a leader that has proclaimed itself
local found = { redis.call('pttl', KEYS[1]) }
-- A hash with other fields, or with a longer value, does not belong to an election.
if redis.call('hlen', KEYS[1]) ~= 2 or redis.call('hstrlen', KEYS[1], 'leader') > 65536 then return found end
local fields = redis.call('hgetall', KEYS[1])
local owner, said
for i = 1, #fields, 2 do
  if fields[i] == 'leader' then said = fields[i + 1] else owner = fields[i] end
end
if owner and said then
  local term, err = last(KEYS[2])
  return err or { found[1], owner, said, term }
end
return found
