-- Return the state of a lock of any kind.
-- USES  clock inspect
-- KEYS  1 the lock, or the number of free permits
--       and, unless they are in other slots:
--       2 the queue of a fair mutex, 3 the counter of tokens, 4 prefix of readers' keys, 5 the leases of permits
--       and, if the user may read it:
--       6 the queue of waiting clients, see lib/queue.lua
-- ARGV  1 how many holders, and how many entries of each queue, to list at most
--       2 the channel of the waiters for a mutex, 3 for a read/write lock, 4 for permits
-- RETURN  the kind; nothing more if it is ''
--         the last token, the value that the leader has proclaimed
--         the number of clients that wait for messages, -1 if unknown
--         the number of holders and waiters that are not listed
--         for each holder: field or id, mode, count, and its remaining ms, -1 without end
--         for each waiter in a queue, those of a fair mutex first: owner, kind of lock that it wants, '' if unknown, for how many ms it
--         has waited, -1 if unknown, and how many permits it wants, 0 if none
--         how many wait in both queues, -1 if no one waits in the first and the second is unknown
local KINDS = { [''] = 'mutex', [':fenced'] = 'fenced', [':write'] = 'rw', [':permits'] = 'semaphore' } -- by the end of an entry in the second queue
local LONG = 100    -- bytes; no entry there is longer
local SINCE = 1e15  -- scores there are larger: µs of the Unix epoch
local PERMITS = 1e9 -- no client wants as many
local most = tonumber(ARGV[1])
local function is(key, type) return key and redis.call('type', key).ok == type end
local function total(reply)
  if reply.err then return -1 end
  local n = 0
  for i = 2, #reply, 2 do n = n + reply[i] end
  return n
end

local kind, leader, more, free, number = 'mutex', '', 0, false, false
local holders, waiters, channels = {}, {}, { ARGV[2] }
local function hold(owner, mode, count, left)
  if #holders >= 4 * most then
    more = more + 1
  else
    for _, v in ipairs({ owner, mode, count, left }) do holders[#holders + 1] = v end
  end
end

-- left returns the remaining ms of a reader with count holds, -2 if it is dead. If counts are large, not all holds are checked, so
-- that the script does not block the server for long. A hold that is not checked counts as alive.
local looks = 2 * most
local function left(field, count)
  local longest = -2
  for n = count, math.max(count - 99, 1), -1 do
    looks = looks - 1
    if not KEYS[4] or looks < 0 then return redis.call('pttl', KEYS[1]) end
    local ttl = redis.call('pttl', KEYS[4] .. ':' .. field .. ':rwlock_timeout:' .. n)
    if ttl == -1 then return -1 end
    longest = math.max(longest, ttl)
  end
  return longest
end

if is(KEYS[1], 'hash') then
  local mode, owners, counts, rest = lock(KEYS[1], most)
  if not mode then return { '' } end
  local ttl = redis.call('pttl', KEYS[1])
  for i, field in ipairs(owners) do
    if mode == '' then
      hold(field, 'exclusive', counts[i], ttl)
    elseif string.find(field, ':write$') then
      hold(string.sub(field, 1, -7), 'write', counts[i], ttl)
    else
      local own = left(field, counts[i])
      if own ~= -2 then hold(field, 'read', counts[i], own) end
    end
  end
  more = more + rest
  if mode ~= '' then
    kind = 'rw'
  elseif redis.call('hexists', KEYS[1], 'leader') == 1 then
    kind, leader = 'election', redis.call('hget', KEYS[1], 'leader')
  end
elseif is(KEYS[1], 'string') and (is(KEYS[5], 'zset') or is(KEYS[5], 'none')) and redis.call('strlen', KEYS[1]) <= 20 then
  if not string.find(redis.call('get', KEYS[1]), '^-?%d+$') then return { '' } end
  local now = clock()
  local all, over = redis.call('zcard', KEYS[5]), redis.call('zcount', KEYS[5], '-inf', now)
  for i = over, math.min(all, over + most) - 1 do
    local taken = redis.call('zrange', KEYS[5], i, i, 'withscores')
    if #taken[1] ~= 16 then return { '' } end
    local ends = tonumber(taken[2])
    hold(taken[1], 'permit', 1, ends < 922337203685477 and math.ceil(ends - now) or -1)
  end
  kind, number = 'semaphore', all == 0 -- without leases it is a semaphore only if a client waits for permits
  more = math.max(all - over - most, 0)
elseif redis.call('exists', KEYS[1]) == 1 then
  return { '' }
else
  free = true
end

-- wait lists a waiter, unless there is too much to read. An entry that is longer than any owner is cut.
local function wait(owner, wants, ms, permits)
  if not spend(#owner) then return false end
  for _, v in ipairs({ string.sub(owner, 1, OWNER), wants, ms, permits }) do waiters[#waiters + 1] = v end
  return true
end

local token, length = nil, 0
if kind == 'mutex' or kind == 'election' then
  if is(KEYS[3], 'string') and redis.call('strlen', KEYS[3]) <= 20 then
    token = string.match(redis.call('get', KEYS[3]), '^%d+$')
    if token and kind == 'mutex' then kind = 'fenced' end
  end
  if is(KEYS[2], 'list') then
    if kind ~= 'election' then kind = 'fair' end
    length = redis.call('llen', KEYS[2])
    local seen = {} -- clients: their owners share the channel for grants
    for i = 0, math.min(length, most) - 1 do
      local owner = redis.call('lindex', KEYS[2], i)
      if not wait(owner, 'fair', -1, 0) then break end
      if #owner <= OWNER then channels[#channels + 1] = ARGV[2] .. ':' .. owner end
      local id = KEYS[6] and string.match(#owner <= LONG and owner or '', '^([%x-]+):%d+$')
      if id and not seen[id] then channels[#channels + 1] = KEYS[6] .. ':' .. id end
      if id then seen[id] = true end
    end
  end
end

-- parse returns the owner, the kind that it wants, and the number of permits of an entry in the second queue. It returns nil if it is
-- not the entry of a client.
local function parse(entry)
  entry = #entry <= LONG and string.gsub(entry, ':short%d+$', '') or ''
  local owner, ending, digits = string.match(entry, '^([%x-]+:%d+)(:?%a*)(%d*)$')
  local wants, n = KINDS[ending or '?'], tonumber(digits or '') or 0
  if wants == 'semaphore' then
    if n > 0 and n < PERMITS then return owner, wants, n end
  elseif wants and digits == '' then
    return owner, wants, n
  end
end

-- second lists the waiters in the second queue. It returns its length, or nil if the user may not read it, and whether a client waits
-- for permits.
local function second()
  if not KEYS[6] then return nil end
  if not is(KEYS[6], 'zset') then return 0 end
  local size, now, permits = redis.pcall('zcard', KEYS[6]), clock(), false
  if type(size) ~= 'number' then return nil end
  for i = 0, math.min(size, most) - 1 do
    local entry = redis.pcall('zrange', KEYS[6], i, i, 'withscores')
    if entry.err then return nil end
    local owner, wants, n = parse(entry[1])
    local ms, score = -1, tonumber(entry[2]) or 0
    if wants and score > SINCE and score < 2 ^ 53 then ms = math.max(math.floor(now - score / 1000), 0) end
    if not wait(wants and owner or entry[1], wants or '', ms, n or 0) then break end
    permits = permits or wants == 'semaphore'
  end
  return size, permits
end
local size, permits = second()
if number and not permits then return { '' } end
if free and kind == 'mutex' and (waiters[2] or '') ~= '' then kind = waiters[2] end
if not size and length == 0 then
  length = -1
else
  length = length + (size or 0)
  more = more + length - #waiters / 4
end
if kind == 'rw' then channels = { ARGV[3] } end
if kind == 'semaphore' then channels = { ARGV[4] } end
local clients = math.max(total(redis.pcall('pubsub', 'numsub', unpack(channels))), total(redis.pcall('pubsub', 'shardnumsub', unpack(channels))))
if clients > 2 ^ 31 then clients = -1 end -- see numsub in lib/listeners.lua
return { kind, token or '0', leader, clients, more, holders, waiters, length }
