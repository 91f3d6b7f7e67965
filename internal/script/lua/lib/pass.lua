-- How a release passes a lock on to a client in the queue.
local SKIPS = 16   -- a call passes over at most so many clients that do not listen

-- spell returns what the owner of an entry wants without ':short' and k, and for how many ms a release grants it.
local function spell(wanted)
  local kind, k = string.match(wanted, '^(.*):short(%d+)$')
  if not k or #k > 2 or k + 0 > 11 then return wanted, GRANT end
  return kind, 2 ^ k
end

-- give writes that an owner has the lock. It returns false if the slot is being moved: the server then refuses to write a key that was
-- deleted, here.
local function give(...) return type(redis.pcall('hset', KEYS[1], ...)) == 'number' end

-- front returns how many clients wait and do not queue, how many of them are foreign, and the first entry whose client listens: the entry,
-- what parse returns for it, and its score. It removes entries whose clients do not listen: they queue again when they listen
-- again. It returns nothing if it is unknown who listens.
local function front(publish, channel)
  local others, foreign, listening
  for _ = 1, SKIPS do
    local head = redis.pcall('zrange', queue, 0, 0, 'withscores')
    local member = head[1]
    if not member then break end
    local client, owner, wanted = parse(member)
    others, foreign, listening = listeners(publish, channel, queue, client or queue)
    if not others then return end
    if client and listening > 0 then return others, foreign, member, client, owner, wanted, head[2] end
    local removed = redis.pcall('zrem', queue, member)
    if #member > LONG or fails(removed) then break end
  end
  return others
end

-- free_for_all reports whether a release leaves the lock free, although clients are in the queue. With f foreign clients and q clients in
-- the queue, 3f/q of the releases do, so that each client gets about the same share: the first in the queue is mostly faster than Redisson
-- and gets more than half of the locks that are left free. If only readers wait, every other release does. With the lot 0 every release
-- does, because clients that listen at other servers cannot be counted.
local function free_for_all(others, foreign, lot)
  if foreign > 0 then
    local queued = redis.pcall('zcard', queue)
    return fails(queued) or lot * queued < 300 * foreign
  end
  return others > 0 and lot % 2 == 0 or lot == 0
end

-- depart removes an owner that has given up. It returns true if the lock is free and others wait for it: then the caller passes it on.
local function depart(member, publish)
  local others, first = abandon(member)
  if not others then return false end
  local ttl = redis.call('pttl', KEYS[1])
  if first and ttl ~= -2 then tell_first(publish, ttl) end
  return ttl == -2
end

-- pass gives a free lock to the first client in the queue that listens: take writes that an owner has the lock, and returns the token.
-- If the lock stays free, or the first client wants it as another kind and may be gone, pass tells all other clients with one message or
-- two. It returns how many other clients wait.
local function pass(kind, take, publish, lot, channel, message, message2)
  local function wake()
    local heard = told(publish, channel, message)
    if message2 then told(publish, channel, message2) end
    return heard
  end
  local others, foreign, member, client, owner, wanted, score = front(publish, channel)
  if member then
    local ms = GRANT
    if wanted ~= kind then wanted, ms = spell(wanted) end
    if wanted ~= kind or free_for_all(others, foreign, lot) then
      wake()
      told(publish, client, '')
      return others
    end
    local token = take(owner)
    if token then
      redis.call('pexpire', KEYS[1], ms)
      if not fails(redis.pcall('zrem', queue, member)) and announce(publish, client, owner, token, ms, score) then
        tell_first(publish, ms)
        return 0
      end
      redis.call('del', KEYS[1]) -- the user may not remove it from the queue, or not publish to it
    end
  end
  local heard = wake()
  return others or outside(heard, publish, channel, queue)
end
